"""Every learner keeps the contract; Hypothesis looks for the sequence that breaks it."""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dealfl.learners import LEARNERS
from dealfl.learners.checks import (
    Operation,
    Subject,
    check_description,
    check_files,
    check_impossible,
    check_interleaving,
    check_learner,
    check_refusals,
)
from tests.learners.subjects import SUBJECTS

every_learner = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=list(SUBJECTS))


def _possible(subject: Subject, drawn: list[tuple[bool, list[int]]]) -> list[Operation]:
    """Return drawn operations with what is not held left out of the forgetting."""
    held: Counter[int] = Counter()
    operations = []
    for learns, numbers in drawn:
        places = [number % subject.pool for number in numbers]
        if not learns:
            places = list((Counter(places) & held).elements())
        (held.update if learns else held.subtract)(places)
        operations.append(Operation(learns, tuple(places)))
    return operations


@every_learner
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 99), max_size=6))))
def test_any_interleaving_leaves_what_training_from_scratch_gives(
    subject: Subject, drawn: list[tuple[bool, list[int]]]
) -> None:
    check_interleaving(subject, _possible(subject, drawn))


@every_learner
def test_random_interleavings_pass_every_check(subject: Subject) -> None:
    check_learner(subject, interleavings=40)


@every_learner
def test_what_cannot_be_used_is_refused_and_changes_nothing(subject: Subject) -> None:
    check_refusals(subject)


@every_learner
def test_impossible_statistics_are_rejected(subject: Subject) -> None:
    check_impossible(subject)


@every_learner
def test_a_saved_learner_continues_as_before(subject: Subject) -> None:
    check_files(subject)


@every_learner
def test_what_a_learner_says_of_itself_is_true(subject: Subject) -> None:
    check_description(subject)


@pytest.mark.soak
@every_learner
def test_ten_thousand_interleavings(subject: Subject) -> None:
    check_learner(subject, interleavings=10_000, seed=int(os.environ.get("SOAK_SEED", "1")))


def test_every_learner_is_under_contract() -> None:
    assert set(SUBJECTS) == set(LEARNERS)
