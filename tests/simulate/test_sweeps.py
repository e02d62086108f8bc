"""Sweeps: every combination, every seed, and intervals that are what they say."""

import math

import numpy as np
import pytest
from scipy import stats

from dealfl.errors import BadInput
from dealfl.simulate import Estimate, SweepProgress, run_fleet, sweep
from tests.simulate.fleets import document, fleet

Vary = dict[str, list[object]]
QUICK = {"job.rounds": 2, "data.rows": 200}


def test_the_interval_of_known_numbers_is_the_one_of_the_textbook() -> None:
    estimate = Estimate.of([4.0, 4.0, 6.0, 6.0])
    deviation = math.sqrt(4 / 3)
    assert estimate.mean == 5.0
    assert estimate.half_width == pytest.approx(3.18244630528 * deviation / 2)
    values = [0.3, 1.9, 2.2, 8.1, -4.0]
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    estimate = Estimate.of(values)
    assert (estimate.low, estimate.high) == pytest.approx((low, high))


def test_a_single_value_has_no_interval_and_none_has_no_mean() -> None:
    estimate = Estimate.of([3.0])
    assert (estimate.mean, estimate.half_width, estimate.low, estimate.high) == (3.0,) + (None,) * 3
    assert Estimate.of([3.0, 3.0]).half_width == 0.0
    with pytest.raises(BadInput, match="at least one value"):
        Estimate.of([])


def test_nineteen_of_twenty_intervals_hold_the_true_mean() -> None:
    draw = np.random.default_rng(0)
    estimates = [Estimate.of(draw.normal(7.0, 2.0, 5).tolist()) for _ in range(2000)]
    hits = sum((e.low or 0) <= 7.0 <= (e.high or 0) for e in estimates)
    assert hits / 2000 == pytest.approx(0.95, abs=0.015)


def test_every_combination_runs_with_every_seed() -> None:
    vary: Vary = {"job.scheme": ["deal", "newfl"], "faults.loss": [0, 0.3]}
    told: list[SweepProgress] = []
    settings = sweep(document(QUICK | {"job.seed": 5}), 2, vary, told.append)
    assert [tuple(one.values.values()) for one in settings] == [
        ("deal", 0), ("deal", 0.3), ("newfl", 0), ("newfl", 0.3),
    ]  # fmt: skip
    assert all([outcome.seed for outcome in one.outcomes] == [5, 6] for one in settings)
    assert {(one.simulation, one.of_simulations) for one in told} == {(n, 8) for n in range(1, 9)}
    alone = run_fleet(fleet(QUICK | {"job.seed": 6, "job.scheme": "newfl", "faults.loss": 0.3}))
    assert settings[3].outcomes[1] == alone
    estimate = settings[3].estimates()["examples learned"]
    assert estimate.mean == sum(one.learned for one in settings[3].outcomes) / 2


def test_a_bad_value_is_reported_before_anything_runs() -> None:
    told: list[SweepProgress] = []
    with pytest.raises(BadInput, match=r"value set for job\.scheme"):
        sweep(document(), 1, {"job.scheme": ["deal", "dael"]}, told.append)
    assert not told
    bad: list[Vary] = [{"job.seed": [1, 2]}, {"job.rounds": []}]
    for vary in bad:
        with pytest.raises(BadInput):
            sweep(document(), 1, vary)
    with pytest.raises(BadInput, match="seeds is 0"):
        sweep(document(), 0)


def test_a_selector_has_its_own_keys_wherever_it_stands_in_the_list() -> None:
    job = document(QUICK | {"job.selector": "fair_ucb"}, {"selection": {"fairness": 0.9}})
    for order in (["fair_ucb", "uniform"], ["uniform", "fair_ucb"]):
        settings = sweep(job, 1, {"job.selector": list(order)})
        promised = {
            one.values["job.selector"]: one.outcomes[0].unmet_guarantees for one in settings
        }
        assert promised["fair_ucb"] is not None, "it keeps the guarantees of the job"
        assert promised["uniform"] is None
