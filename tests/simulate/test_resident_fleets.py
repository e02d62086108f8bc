"""Fleets of phones with live models: what they cost, and how often factors are computed again."""

import pytest

from dealfl.learners import cycles_of
from dealfl.simulate import Outcome, read_fleet, run_fleet
from tests.simulate.fleets import document
from tests.simulate.test_phone_fleets import phones


def ran(learner: str, **keys: object) -> Outcome:
    """Return the outcome of a fleet with these keys, dots written as two underscores."""
    dotted = {name.replace("__", "."): value for name, value in keys.items()}
    return run_fleet(read_fleet(document({"job.learner": learner} | dotted, phones())))


@pytest.mark.parametrize("learner", ["naive_bayes", "tikhonov_classifier", "neighbors"])
def test_a_live_model_is_priced_by_what_changing_it_costs(learner: str) -> None:
    laws = cycles_of(learner)
    assert laws.update is not None
    assert laws.train is not None
    each = [ran(learner, worker__model=one).energy for one in ("stateless", "resident")]
    stateless, resident = (one.cycles / one.wake_ups for one in each)
    assert 1.1 < resident / stateless < 1.1 * laws.update.per_call / laws.train.per_call


@pytest.mark.parametrize("learner", ["naive_bayes", "tikhonov_classifier", "neighbors"])
def test_scores_that_review_evictions_are_part_of_computing(learner: str) -> None:
    plain = ran(learner, worker__model="resident", job__forget_fraction="0.3").energy
    assert plain.review_j == 0.0
    keys = {"worker__validation_share": 0.2, "worker__recovery_tolerance": 1.0}
    reviewed = ran(learner, job__forget_fraction="0.3", **keys).energy
    assert 0.0 < reviewed.review_j < reviewed.compute_j
    assert reviewed.cycles / reviewed.wake_ups > 1.1 * plain.cycles / plain.wake_ups


@pytest.mark.parametrize(("solver", "least", "most"), [("qr", 0.0, 0.1), ("refactor", 0.2, 9.0)])
def test_factors_follow_rows_in_almost_all_trainings(
    solver: str, least: float, most: float
) -> None:
    outcome = ran(
        "tikhonov_classifier", learner__solver=solver, learner__penalty=1e4, job__rounds=12,
        job__forget_fraction="0.3", worker__validation_share=0.2, worker__recovery_tolerance=1.0,
    )  # fmt: skip
    assert outcome.evicted > outcome.energy.wake_ups, "trainings without a review prove nothing"
    assert least <= outcome.energy.refactorisations / outcome.energy.wake_ups <= most
    assert outcome.digest == outcome.central_digest
