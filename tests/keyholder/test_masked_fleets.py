"""Simulated fleets under masks: exact, resumed after a stop."""

from pathlib import Path

import pytest

from dealfl.errors import BadInput
from dealfl.simulate import RunState, finish, run_fleet, start_run
from tests.simulate.fleets import fleet
from tests.simulate.test_resumed_runs import stopped_after

PRIVACY = {"privacy.keyholder": "keyholder", "privacy.cohort": 3}
SMALL = {"job.rounds": 5, "data.rows": 300}


def test_a_faulty_fleet_under_masks_is_exact_and_opens_almost_everything() -> None:
    outcome = run_fleet(fleet(PRIVACY | SMALL))
    assert outcome.exact
    assert outcome.updates > 10
    few = [note for note in outcome.notes if "wait for fresh examples of 3 workers" in note]
    assert len(few) <= 1


def test_a_stopped_run_under_masks_continues(tmp_path: Path) -> None:
    made = fleet(PRIVACY | SMALL)
    run = start_run(made)
    for stop in (40, 150):
        stopped_after(run, stop).state().write(tmp_path / "state")
        run = start_run(made, RunState.read(tmp_path / "state"))
    run.pump()
    outcome = finish(run)
    assert outcome.exact
    assert outcome.digest == run_fleet(made).digest


def test_a_cohort_larger_than_the_fleet_is_refused_at_the_start() -> None:
    with pytest.raises(BadInput, match=r"privacy.cohort is 16; the fleet has 15 workers"):
        fleet({"privacy.keyholder": "keyholder", "privacy.cohort": 16})
    with pytest.raises(BadInput, match="needs the name of a keyholder"):
        fleet({"privacy.cohort": 3})


def test_a_model_that_is_too_large_is_refused_with_its_size() -> None:
    changes = {"job.learner": "neighbors", "learner.vote_bits": 14}
    with pytest.raises(BadInput, match="bytes as a dense vector"):
        run_fleet(fleet(PRIVACY | changes))
