"""Drift: a live model that fails on new examples makes its worker forget the old ones."""

import random

import pytest

from dealfl.worker.drift import DriftState


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
