"""The contract of all selectors, and what each one adds to it."""

import math
from collections import Counter

import numpy as np
import pytest

from dealfl.server.selection import (
    SELECTORS,
    Candidate,
    Discounted,
    FairUpperConfidence,
    OortLike,
    ThompsonSampling,
    draw_rewards,
    make_selector,
)
from dealfl.server.selection.bandit import Bandit
from tests.selection.playing import NAMES, awake, candidates, play, save

BANDITS: list[type[Bandit]] = [FairUpperConfidence, ThompsonSampling, Discounted, OortLike]


@pytest.mark.parametrize("name", sorted(SELECTORS))
def test_every_selector_chooses_different_candidates_and_is_deterministic(name: str) -> None:
    first, second = (
        play(make_selector(name), range(1, 150)),
        play(make_selector(name), range(1, 150)),
    )
    assert first == second
    for number, chosen in enumerate(first, 1):
        assert len(set(chosen)) == len(chosen)
        assert set(chosen) <= set(awake(number))
        most = len(awake(number)) if name == "everyone" else 3
        assert len(chosen) == min(most, len(awake(number)))


@pytest.mark.parametrize("name", sorted(SELECTORS))
def test_a_restart_at_any_round_continues_the_same_sequence(name: str) -> None:
    whole = play(make_selector(name), range(1, 260), silent="w2")
    for stop in (1, 7, 120, 255):
        first, second = make_selector(name), make_selector(name)
        begun = play(first, range(1, stop), silent="w2")
        second.restore(save(first))
        assert not second.changes()
        assert begun + play(second, range(stop, 260), silent="w2") == whole


@pytest.mark.parametrize("name", sorted(SELECTORS))
def test_a_restart_between_a_choice_and_its_rewards_loses_nothing(name: str) -> None:
    whole, broken, parts = make_selector(name), make_selector(name), dict[str, bytes]()
    for number in range(1, 120):
        expected = whole.select(number, candidates(awake(number)), 3)
        assert broken.select(number, candidates(awake(number)), 3) == expected
        for one in expected:
            parts, broken = save(broken, parts), make_selector(name)
            broken.restore(parts)
            for each in (whole, broken):
                each.record_reward(number, one, 0.5)
    assert save(whole) == save(broken, parts)


@pytest.mark.parametrize("make", BANDITS)
def test_an_empty_state_is_a_fresh_start_also_after_rounds(make: type[Bandit]) -> None:
    one = make()
    first = play(one, range(1, 50))
    one.restore({})
    assert save(one) == save(make())
    assert play(one, range(1, 50)) == first


@pytest.mark.parametrize("make", BANDITS)
def test_a_failed_transaction_is_undone_by_its_state(make: type[Bandit]) -> None:
    one = make()
    play(one, range(1, 30))
    before = save(one)
    chosen = one.select(30, candidates(NAMES), 2)
    one.record_reward(30, chosen[0], 1.0)
    assert save(one, before) != before
    one.restore(before)
    assert not one.changes()
    assert one.select(30, candidates(NAMES), 2) == chosen


def test_nothing_is_saved_until_something_changes() -> None:
    one = FairUpperConfidence()
    one.select(1, candidates(NAMES), 2)
    assert one.changes()
    one.record_reward(1, "a stranger", 0.5)
    one.record_reward(0, "w0", 0.5)
    assert one.select(2, [], 3) == []
    assert not one.changes()


def mean_and_tries(one: Bandit, name: str) -> tuple[float, float]:
    place = one.names.index(name)
    return float(one.arms.mean[place]), float(one.arms.count[place])


def test_who_does_not_answer_counts_as_asleep_with_reward_0() -> None:
    one = FairUpperConfidence()
    one.select(1, candidates(["a"]), 1)
    assert mean_and_tries(one, "a") == (1.0, 0.0), "it may still answer"
    one.select(2, candidates(["b"]), 1)
    assert mean_and_tries(one, "a") == (0.0, 1.0)


def test_a_late_reward_takes_the_place_of_the_0_and_is_not_a_second_try() -> None:
    one = FairUpperConfidence()
    one.select(1, candidates(["a"]), 1)
    one.select(2, candidates(["b"]), 1)
    for _ in range(2):  # the second one is a repetition
        one.record_reward(1, "a", 0.75)
        assert mean_and_tries(one, "a") == (0.75, 1.0)
    one.select(3, candidates(["a"]), 1)
    one.record_reward(1, "a", 0.5)
    assert mean_and_tries(one, "a") == (0.75, 1.0), "an old reward is no answer to a new try"


def test_a_repeated_reward_counts_once() -> None:
    one = FairUpperConfidence()
    one.select(1, candidates(["a"]), 1)
    for reward in (0.5, 0.5, 1.0):
        one.record_reward(1, "a", reward)
    assert mean_and_tries(one, "a") == (0.5, 1.0)


def test_a_queue_grows_also_while_its_worker_sleeps() -> None:
    one = FairUpperConfidence(fairness=0.25)
    one.select(1, candidates(["sleeper", "other"]), 2)
    for number in range(2, 42):
        one.select(number, candidates(["other"]), 1)
    owed = dict(zip(one.names, one.arms.queues(42).tolist(), strict=True))
    assert owed["sleeper"] == pytest.approx(10.0)
    assert owed["other"] == 0.0


def test_the_queue_is_the_one_of_the_paper_kept_step_by_step() -> None:
    rates = {name: 0.05 * place for place, name in enumerate(NAMES)}
    one = FairUpperConfidence(fairness=rates, eta=3.0)
    one.select(1, candidates(NAMES), 8)
    queues = dict.fromkeys(NAMES, 0.0)
    chosen = NAMES
    for number in range(2, 90):
        for name in NAMES:
            queues[name] = max(queues[name] + rates[name] - (name in chosen), 0.0)
        owed = dict(zip(one.names, one.arms.queues(number).tolist(), strict=True))
        assert owed == pytest.approx(queues)
        chosen = one.select(number, candidates(awake(number)), 2)


@pytest.mark.parametrize("make", [FairUpperConfidence, ThompsonSampling, Discounted])
def test_everybody_gets_its_fraction(make: type[Bandit]) -> None:
    one = make(fairness={"w0": 0.4, "*": 0.2}, eta=5.0)
    times = Counter(name for names in play(one, range(1, 1500)) for name in names)
    assert times["w0"] >= 0.39 * 1500
    assert min(times.values()) >= 0.19 * 1500
    assert one.over_promised() is None


def test_without_promises_the_best_are_chosen() -> None:
    one = FairUpperConfidence()
    times = Counter(name for names in play(one, range(1, 3000)) for name in names)
    best = Counter(name for number in range(1, 3000) for name in awake(number)[-3:])
    assert sum((times & best).values()) > 0.9 * 3 * 3000


def test_a_new_worker_is_owed_nothing_and_one_that_came_back_is_new() -> None:
    one = FairUpperConfidence(fairness=0.5)
    one.select(1, candidates(["a", "b"]), 1)
    one.select(50, candidates(["a", "b", "new"]), 1)
    assert one.arms.queues(50)[one.names.index("new")] == 0.0
    one.remove("b")
    one.remove("b")
    assert one.names == ["a", "new"]
    one.record_reward(50, "b", 1.0)
    one.select(51, candidates(["b", "new"]), 1)
    assert one.names == ["a", "new", "b"]
    assert mean_and_tries(one, "b")[1] == 0.0


def test_a_removed_worker_leaves_nothing_behind_and_the_others_as_they_were() -> None:
    one = FairUpperConfidence(fairness=0.2)
    play(one, range(1, 40))
    before = {name: mean_and_tries(one, name) for name in NAMES if name != "w3"}
    one.remove("w3")
    assert not any(b"w3" in part for part in save(one).values())
    assert {name: mean_and_tries(one, name) for name in one.names} == before


def test_a_drained_battery_is_noticed_soon_only_where_estimates_age() -> None:
    """The first one earns most for 600 rounds, then least."""
    found = {}
    for one in (Discounted(discount=0.98), FairUpperConfidence()):
        wrong = 0
        for number in range(1, 801):
            [name] = one.select(number, candidates(["a", "b"]), 1)
            one.record_reward(number, name, 0.6 if name == "b" else 0.9 if number <= 600 else 0.1)
            wrong += name == "a" and number > 600
        found[type(one)] = wrong
    assert 3 * found[Discounted] < found[FairUpperConfidence], found


def test_drawn_rewards_have_the_mean_that_was_observed() -> None:
    mean, count = np.full(20_000, 0.3), np.full(20_000, 50.0)
    sample = draw_rewards(1, 7, mean, count)
    assert sample.mean() == pytest.approx(16 / 52, abs=0.002)
    assert sample.std() == pytest.approx(math.sqrt(16 * 36 / 52**2 / 53), rel=0.05)
    assert (draw_rewards(1, 8, mean, count) != sample).all()


def test_the_share_of_workers_that_oort_explores_falls_with_the_rounds() -> None:
    one = OortLike()
    old = [Candidate(f"old{place}") for place in range(40)]
    for number in range(1, 61):
        for name in one.select(number, old, 10):
            one.record_reward(number, name, 0.5)
    new = [Candidate(f"new{place}") for place in range(40)]
    chosen = one.select(61, [*old, *new], 10)
    assert sum(name.startswith("new") for name in chosen) == 3, "0.9 · 0.98⁶¹ of ten"


@pytest.mark.parametrize("seed", range(9))
def test_when_oort_explores_the_other_places_are_for_the_best(seed: int) -> None:
    one = OortLike(seed=seed)
    old = [Candidate(f"old{place}") for place in range(20)]
    for number in range(1, 41):
        for name in one.select(number, old, 10):
            one.record_reward(number, name, 1.0 if name in {"old3", "old7"} else 0.1)
    chosen = one.select(41, [*old, Candidate("new1"), Candidate("new2")], 4)
    assert set(chosen) == {"old3", "old7", "new1", "new2"}, "0.9 · 0.98⁴¹ of four are new"


@pytest.mark.parametrize("kind", BANDITS)
def test_of_no_places_nobody_gets_one(kind: type[Bandit]) -> None:
    assert kind().select(1, [Candidate("a"), Candidate("b")], 0) == []
