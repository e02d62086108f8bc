"""Fleets of phones with live models: how often their factors are computed again."""

import pytest

from dealfl.simulate import read_fleet, run_fleet
from tests.simulate.fleets import document
from tests.simulate.test_phone_fleets import phones


@pytest.mark.parametrize(("solver", "least", "most"), [("qr", 0.0, 0.1), ("refactor", 0.5, 9.0)])
def test_factors_follow_rows_in_almost_all_trainings(
    solver: str, least: float, most: float
) -> None:
    keys = {
        "job.learner": "tikhonov_classifier", "job.rounds": 12, "job.forget_fraction": "0.3",
        "learner.solver": solver, "learner.penalty": 1e4,
        "worker.validation_share": 0.2, "worker.recovery_tolerance": 1.0,
    }  # fmt: skip
    outcome = run_fleet(read_fleet(document(keys, phones())))
    assert outcome.evicted > outcome.energy.wake_ups, "trainings without a review prove nothing"
    assert least <= outcome.energy.refactorisations / outcome.energy.wake_ups <= most
    assert outcome.digest == outcome.central_digest
