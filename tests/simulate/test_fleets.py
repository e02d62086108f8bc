"""Whole fleets: exact whatever goes wrong, the same for a seed, and closed in time."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import dealfl
from dealfl.errors import BadInput
from dealfl.server import LedgerReader
from dealfl.simulate import Progress, run_fleet, start_run
from dealfl.worker import SCHEMES
from tests.simulate.fleets import calm_fleet, fleet


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_the_digest_is_that_of_central_training_for_each_scheme(scheme: str) -> None:
    changes = {"job.scheme": scheme, "job.forget_fraction": "0.3", "job.learner": "naive_bayes"}
    outcome = run_fleet(fleet(changes))
    assert outcome.exact
    assert len(outcome.rounds) == 8
    assert outcome.updates > 10
    assert outcome.learned > 100
    assert bool(outcome.evicted) == (scheme in ("deal", "newfl"))
    assert outcome.quality is not None
    assert outcome.quality > 0.5


@pytest.mark.parametrize("learner", ["tikhonov_classifier", "neighbors"])
def test_other_learners_are_simulated_as_exactly(learner: str) -> None:
    outcome = run_fleet(fleet({"job.learner": learner, "job.rounds": 4}))
    assert outcome.exact
    assert outcome.metric == "accuracy"


@pytest.mark.parametrize("task", ["rows", "histories"])
def test_a_difference_to_central_training_is_not_hidden(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dealfl.server.aggregation import Aggregated, Aggregation

    honest = Aggregation.aggregate

    def twice(self: Aggregation, *given: Any) -> Aggregated:
        done = honest(self, *given)
        if "w03" in done.counted or "w3" in done.counted:
            self.total.merge(self.total.statistics)
        return done

    some = [[place % 7, 7 + place % 5, 12 + place % 3] for place in range(90)]
    recommended = dealfl.Fleet.from_histories(some, workers=3).with_rounds(2).simulated
    simulated = fleet({"job.rounds": 3}) if task == "rows" else recommended
    assert run_fleet(simulated).exact
    monkeypatch.setattr(Aggregation, "aggregate", twice)
    assert not run_fleet(simulated).exact


def test_the_same_seed_is_the_same_simulation_and_another_is_not() -> None:
    first, second, other = (run_fleet(fleet({"job.seed": seed})) for seed in (1, 1, 2))
    assert first == second
    assert first.digest != other.digest
    assert [one.duration_s for one in first.rounds] != [one.duration_s for one in other.rounds]


BUSY = {
    "devices.1.count": 17,
    "job.workers_per_round": 10,
    "job.rounds": 30,
    "data.rows": 0,
    "data.concentration": 200,
}


def test_with_few_dropouts_most_rounds_are_closed_by_majority() -> None:
    outcome = run_fleet(calm_fleet(BUSY | {"faults.dropout_share": 0.1}))
    assert len(outcome.rounds) == 30
    assert outcome.by_ttl <= 4
    assert outcome.by_majority >= 26  # everybody may decline before they are welcomed
    assert outcome.exact


def test_with_many_dropouts_every_round_is_closed_by_the_time_to_live_with_progress() -> None:
    outcome = run_fleet(calm_fleet(BUSY | {"faults.dropout_share": 0.5}))
    assert len(outcome.rounds) == 30
    assert all(one.duration_s <= 30.0 + 1e-6 for one in outcome.rounds)
    assert outcome.by_ttl >= 8
    assert outcome.learned > 300
    assert outcome.exact


def test_when_everybody_drops_out_nothing_is_learned_and_rounds_still_close() -> None:
    outcome = run_fleet(calm_fleet({"faults.dropout_share": 1, "job.rounds": 3}))
    assert [one.reason for one in outcome.rounds] == ["time to live"] * 3
    assert (outcome.learned, outcome.updates, outcome.quality) == (0, 0, None)
    assert outcome.exact


def test_stragglers_make_rounds_longer_and_cost_no_more() -> None:
    quick = run_fleet(calm_fleet({"job.rounds": 1, "job.selector": "everyone"}))
    late = {"faults.straggler_share": 1, "faults.straggler_factor": 5}
    slow = run_fleet(calm_fleet({"job.rounds": 1, "job.selector": "everyone"} | late))
    assert slow.rounds[0].duration_s > quick.rounds[0].duration_s
    assert slow.energy_j == quick.energy_j


def test_energy_is_what_operations_and_waking_cost() -> None:
    each = 1e-6
    settings = {f"devices.{group}.joules_per_operation": each for group in (1, 2)}
    plain = run_fleet(calm_fleet(settings | {"devices.1.wake_j": 0}))
    assert plain.energy_j == pytest.approx(plain.operations * each)
    awake = run_fleet(calm_fleet(settings | {"devices.1.wake_j": 1, "devices.2.wake_j": 1}))
    assert awake.energy_j == pytest.approx(awake.operations * each + awake.updates)


def test_when_all_is_learned_it_ends() -> None:
    all_at_once = {"job.rounds": 500, "job.selector": "everyone", "arrival.initial_share": 1}
    outcome = run_fleet(calm_fleet(all_at_once))
    assert outcome.ended == "no examples left"
    assert (outcome.learned, outcome.not_learned) == (480, 0)
    assert outcome.exact


def test_when_the_time_is_over_it_ends_with_what_there_is() -> None:
    outcome = run_fleet(fleet({"job.rounds": 10**6, "job.max_h": 0.05}))
    assert outcome.ended == "max_h reached"
    assert outcome.virtual_s <= 0.05 * 3600 + 30
    assert outcome.exact


def test_who_is_traced_to_be_away_takes_no_part(tmp_path: Path) -> None:
    rows = "".join(f"phone {n},{0 if n < 5 else 900_000},{10**6}\n" for n in range(15))
    (tmp_path / "trace.csv").write_text("worker,from_s,to_s\n" + rows)
    traced = {"kind": "trace", "file": str(tmp_path / "trace.csv")}
    made = fleet(sections={"availability": traced, "faults": {}})
    ledger = tmp_path / "ledger.db"
    outcome = run_fleet(made, ledger)
    assert outcome.exact
    with LedgerReader.open(ledger) as reader:
        chosen = {selection.worker for selection in reader.selections()}
    assert chosen == {"w01", "w02", "w03", "w04", "w05"}


def test_what_is_under_way_when_everybody_leaves_is_counted_in_the_end(tmp_path: Path) -> None:
    rows = "".join(f"phone {n},0,20\n" for n in range(15))
    (tmp_path / "trace.csv").write_text("worker,from_s,to_s\n" + rows)
    traced = {"kind": "trace", "file": str(tmp_path / "trace.csv")}
    slow = {"devices.1.operations_per_s": 0.1, "devices.2.operations_per_s": 0.1}
    outcome = run_fleet(fleet(slow | {"job.max_h": 0.1}, {"availability": traced, "faults": {}}))
    assert outcome.ended == "max_h reached"
    assert {one.reason for one in outcome.rounds} == {"time to live"}
    assert outcome.learned > 0
    assert outcome.updates > 0
    assert outcome.exact


def test_progress_is_reported_at_every_round() -> None:
    told: list[Progress] = []
    run_fleet(fleet(), progress=told.append)
    assert {one.rounds for one in told} >= set(range(1, 9))
    assert all(a.virtual_s <= b.virtual_s for a, b in pairwise(told))


def test_quality_is_asked_for_as_often_as_the_job_says() -> None:
    outcome = run_fleet(fleet({"job.evaluate_every": 3}))
    asked = [one.number for one in outcome.rounds if one.quality is not None]
    assert asked == [3, 6]


def test_examples_without_owners_cannot_be_dealt_out_by_owner() -> None:
    with pytest.raises(BadInput, match="digits has no owners"):
        run_fleet(fleet(sections={"data": {"partition": "by_owner"}}))
    with pytest.raises(BadInput, match="too few for a training and a test set"):
        run_fleet(fleet({"data.rows": 1}))


@pytest.mark.parametrize(("operations", "prefers"), [(1e9, True), (1e9 - 1, False)])
def test_a_run_that_plans_much_work_starts_with_compiled_loops(
    operations: float, prefers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    preferred: list[bool] = []
    monkeypatch.setattr("dealfl.simulate.fleet_run._plan_operations", lambda run: operations)
    monkeypatch.setattr("dealfl.simulate.fleet_run.prefer_loops", lambda: preferred.append(True))
    start_run(calm_fleet()).close()
    assert bool(preferred) is prefers
