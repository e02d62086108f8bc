"""What a worker is worth in advance: more for more examples, less for a dearer wake-up."""

from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace

from dealfl.learners import NaiveBayes
from dealfl.server import RewardWeights, Rules, WorkerRow, compute_reward_parts
from dealfl.server.predictions import Predictions
from dealfl.server.roster import MAX_WEIGHT, Columns, Roster

HALF_J = 0.05
ROW = WorkerRow("w", waiting=10, battery=0.8, capacity_j=1e5)


def compute_weight(row: WorkerRow, energy_j: float | None, half_example_j: float) -> float:
    """Return the weight of one worker that is not overdue."""
    rules = Rules(rewards=RewardWeights(half_example_j=half_example_j))
    expected_j = np.array([np.nan if energy_j is None else energy_j])
    return float(Columns.of([row]).weigh(rules, row.waiting_since_s, expected_j)[0])


@pytest.mark.parametrize("fixed_j", [0.01, 0.1, 1.0, 100.0])
def test_more_waiting_is_worth_more_and_never_more_than_the_most(fixed_j: float) -> None:
    weights = [
        compute_weight(replace(ROW, waiting=count), fixed_j + 0.001 * count, HALF_J)
        for count in (1, 2, 5, 20, 99, 100, 1000, 10**6)
    ]
    assert all(less <= more for less, more in pairwise(weights))
    assert all(less < more for less, more in pairwise(weights[:6]))
    assert weights[0] > 0
    assert weights[-1] <= MAX_WEIGHT


def test_a_dearer_radio_makes_it_worth_less_and_never_nothing() -> None:
    weights = [compute_weight(ROW, energy_j, HALF_J) for energy_j in (0.01, 0.1, 1.0, 1e3, 1e9)]
    assert all(cheap > dear > 0 for cheap, dear in pairwise(weights))
    assert compute_weight(ROW, HALF_J * 10 * 0.8, HALF_J) == pytest.approx(5.0), "half at the half"


def test_an_empty_battery_makes_it_worth_less_and_a_charger_does_not() -> None:
    weights = [
        compute_weight(replace(ROW, battery=share), 1.0, HALF_J) for share in (1.0, 0.5, 0.2, 0.1)
    ]
    assert all(full > empty > 0 for full, empty in pairwise(weights))
    empty = replace(ROW, battery=0.0)
    assert 0 < compute_weight(empty, 1.0, HALF_J) == weights[-1]
    assert compute_weight(replace(empty, charging=True), 1.0, HALF_J) == weights[0]


def test_without_a_figure_only_examples_count() -> None:
    assert (
        compute_weight(ROW, None, HALF_J)
        == compute_weight(ROW, 0.0, HALF_J)
        == compute_weight(ROW, 1.0, 0.0)
        == 10.0
    )


def test_the_roster_weighs_by_what_is_predicted_for_the_phone() -> None:
    rules = Rules(rewards=RewardWeights(half_example_j=HALF_J))
    names = ("nexus", "mi", "unheard of")
    rows = Roster({name: replace(ROW, name=name, device=name) for name in names})
    known = Predictions(NaiveBayes)
    weights = {one.name: one.weight for one in rows.find_candidates(rules, 0.0, known)}
    assert weights["mi"] < weights["nexus"] < weights["unheard of"] == 10.0
    plain = {one.weight for one in rows.find_candidates(Rules(), 0.0, known)}
    assert plain == {10.0}, "by default energy is no part of it"


def test_a_training_that_took_more_because_it_learned_more_earns_no_less_thrift() -> None:
    by_example = RewardWeights(half_example_j=HALF_J)

    def thrift(weights: RewardWeights, learned: int, energy_j: float) -> float:
        figures = {"elapsed_s": 1.0, "ttl_s": 60.0, "learned": learned, "energy_j": energy_j}
        return compute_reward_parts(weights, **figures)[2]  # type: ignore[arg-type]

    assert thrift(by_example, 10, 0.2) > thrift(by_example, 1, 0.15)
    assert thrift(RewardWeights(), 10, 0.2) < thrift(RewardWeights(), 1, 0.15)
    assert thrift(by_example, 2, 2 * HALF_J) == pytest.approx(0.5)
    assert thrift(by_example, 0, HALF_J) == pytest.approx(0.5), "nothing learned is no discount"
