"""Drift: a live model that fails on new examples makes its worker forget the old ones."""

import random

import pytest

from dealfl.worker import Journal, WorkerKeys
from dealfl.worker.drift import DriftState
from tests.federation.parts import assignment, row, updates, welcomed


def feed(
    state: DriftState, miss: float, trainings: int, draw: random.Random, first: int = 1
) -> int:
    """Note trainings in which the model misses a share; return the first alarm, or 0."""
    for number in range(first, first + trainings):
        hits = sum(draw.random() >= miss for _ in range(6))
        changed = state.note(hits / 6, 6, number)
        if changed:
            return changed
    return 0


@pytest.mark.parametrize("miss", [0.05, 0.3, 0.5])
def test_a_change_is_noticed_within_a_few_trainings_and_dated(miss: float) -> None:
    early = 0
    for seed in range(20):
        draw = random.Random(seed)
        state = DriftState()
        if feed(state, miss, 20, draw):
            early += 1
            continue
        changed = feed(state, 0.97, 8, draw, first=101)
        assert changed >= 12, "at most the last trainings before it look like the new world"
        assert state.alarms == 1
        assert (state.tested, state.changed_at) == (0, 0), "it begins again"
    assert early <= 1


def test_false_alarms_are_rare() -> None:
    alarms = 0
    for seed in range(300):
        state = DriftState()
        draw = random.Random(seed)
        for _ in range(100):
            feed(state, 0.3, 1, draw)
        alarms += state.alarms
    assert alarms <= 20, "300 phones, 180,000 examples: one in 9,000"


def test_a_model_that_gets_better_raises_no_alarm() -> None:
    state = DriftState()
    for number in range(60):
        assert not state.note(min(0.3 + number / 60, 1.0), 6, 1 + number)


def test_scores_beyond_their_range_count_as_its_ends() -> None:
    state = DriftState()
    for number in range(4):
        state.note(1.5, 10, 1 + number)
    assert state.missed == 0
    assert state.note(-7.0, 10, 50) == 50


def test_the_change_is_dated_to_the_first_training_that_spoke_for_it() -> None:
    state = DriftState()
    for number in range(1, 5):
        assert not state.note(0.9, 10, number)
    assert not state.note(0.0, 3, 70)
    assert state.note(0.0, 3, 80) == 70


def test_less_evidence_is_enough_if_others_were_alarmed_but_some_is_needed() -> None:
    def after(*scores: float, warned: bool) -> int:
        state = DriftState()
        for number in range(1, 5):
            state.note(0.8, 10, number)
        return max(state.note(score, 5, 70, others_alarmed=warned) for score in scores)

    assert not after(0.2, warned=False)
    assert after(0.2, warned=True) == 70
    assert not after(0.8, 0.8, 0.6, warned=True), "as good as before: the others may be wrong"


def test_an_assignment_warns_the_worker_of_what_others_noticed() -> None:
    def evicted(warned: bool) -> int:
        journal = Journal(journal_id="mark")
        keys = WorkerKeys(model="resident", drift=True)
        one = welcomed(journal=journal, keys=keys, forget_fraction="0")
        for number, (count, target) in enumerate([(15, "a"), (10, "a"), (1, "b")], 1):
            examples = [row(1, 0, 0, target=target), row(0, 0, 1, target="ab"["a" in target])]
            one.ingest([("ann", examples[0])] * count + [("ann", examples[1])] * count)
            order = assignment(number, others_alarmed=warned and number == 3)
            (sent,) = updates(one.handle([order], float(number)).messages)
        return sent.evicted

    assert evicted(warned=True) == 50
    assert evicted(warned=False) == 0
