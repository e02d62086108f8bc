"""The contract of all selectors, and what each one adds to it."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from dealfl.errors import BadInput, UnknownName
from dealfl.server.selection import (
    SELECTORS,
    Candidate,
    Discounted,
    FairUpperConfidence,
    OortLike,
    Selector,
    ThompsonSampling,
    draw_rewards,
    make_selector,
)
from dealfl.server.selection.bandit import Bandit
from tests.selection.stored import save

NAMES = [f"worker {number}" for number in range(8)]
BANDITS: list[type[Bandit]] = [FairUpperConfidence, ThompsonSampling, Discounted, OortLike]
Play = Callable[[int], Sequence[str]]


def candidates(names: Sequence[str], weight: float = 100.0) -> list[Candidate]:
    return [Candidate(name, weight) for name in names]


def awake(number: int) -> list[str]:
    draw = np.random.default_rng([5, number])
    return [name for name in NAMES if draw.random() < 0.7]


def play(one: Selector, numbers: range, count: int = 3, silent: str = "") -> list[list[str]]:
    """Play rounds; the later a name, the more it earns, but for one that never answers."""
    chosen = []
    for number in numbers:
        names = one.select(number, candidates(awake(number)), count)
        for name in names:
            if name != silent:
                one.record_reward(number, name, (NAMES.index(name) + 1) / 10)
        chosen.append(names)
    return chosen


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
    whole = play(make_selector(name), range(1, 260), silent="worker 2")
    for stop in (1, 7, 120, 255):
        first, second = make_selector(name), make_selector(name)
        begun = play(first, range(1, stop), silent="worker 2")
        second.restore(save(first))
        assert not second.changes()
        assert begun + play(second, range(stop, 260), silent="worker 2") == whole


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
    one.record_reward(0, "worker 0", 0.5)
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
    one = make(fairness={"worker 0": 0.4, "*": 0.2}, eta=5.0)
    times = Counter(name for names in play(one, range(1, 1500)) for name in names)
    assert times["worker 0"] >= 0.39 * 1500
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
    before = {name: mean_and_tries(one, name) for name in NAMES if name != "worker 3"}
    one.remove("worker 3")
    assert not any(b"worker 3" in part for part in save(one).values())
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


# -- promises -----------------------------------------------------------------------------------


def test_too_many_promises_are_reported_and_the_modest_get_theirs() -> None:
    one = FairUpperConfidence(fairness={"a": 0.9, "b": 0.9, "c": 0.1}, eta=10.0)
    times: Counter[str] = Counter()
    early = 0
    for number in range(1, 4001):
        [name] = one.select(number, candidates(["a", "b", "c"]), 1)
        one.record_reward(number, name, {"a": 0.9, "b": 0.8, "c": 0.1}[name])
        times[name] += number > 1000
        early += name == "c" and 100 < number <= 300
    found = one.over_promised()
    assert found is not None
    assert found.workers == ("a", "b", "c")
    assert found.promised == pytest.approx(1.9)
    assert found.possible == pytest.approx(1.0)
    assert early >= 0.09 * 200, "from the first review on: what others were owed is cut, too"
    assert times["c"] >= 0.099 * 3000, "what was promised to c can be kept"
    assert min(times["a"], times["b"]) >= 0.42 * 3000, "the others share what is left"


def test_a_worker_that_sleeps_more_than_its_promise_allows_is_the_only_one_reported() -> None:
    one = FairUpperConfidence(fairness={"sleepy": 0.5, "*": 0.2}, eta=10.0)
    times: Counter[str] = Counter()
    for number in range(1, 2001):
        names = ["a", "b", "c"] + ["sleepy"] * (number % 5 == 0)
        for name in one.select(number, candidates(names), 1):
            one.record_reward(number, name, 0.5)
            times[name] += 1
    found = one.over_promised()
    assert found is not None
    assert found.workers == ("sleepy",)
    assert found.possible < 0.25
    assert times["sleepy"] >= 0.19 * 2000
    assert min(times[name] for name in "abc") >= 0.19 * 2000


def test_a_restart_continues_also_where_promises_were_cut() -> None:
    promises = {"worker 1": 0.05, "*": 0.9}
    whole = play(FairUpperConfidence(fairness=promises), range(1, 330))
    for stop in (99, 100, 101, 102, 199, 205, 320):
        first = FairUpperConfidence(fairness=promises)
        second = FairUpperConfidence(fairness=promises)
        begun = play(first, range(1, stop))
        second.restore(save(first))
        assert begun + play(second, range(stop, 330)) == whole
    assert second.over_promised() is not None


# -- settings -----------------------------------------------------------------------------------


SHARES = "a number from 0 to 1, or a table, each value a number from 0 to 1"


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("fair_ucb", {"eta": 0}, "eta is 0; it takes a number > 0, or inf"),
        ("fair_ucb", {"eta": math.nan}, "eta is nan; it takes a number > 0, or inf"),
        ("fair_ucb", {"fairness": 1.5}, f"fairness is 1.5; it takes {SHARES}"),
        (
            "fair_ucb",
            {"fairness": {"a": "much"}},
            f"fairness is {{'a': 'much'}}; it takes {SHARES}",
        ),
        ("thompson", {"seed": -1}, "seed is -1; it takes a whole number ≥ 0"),
        ("uniform", {"seed": 0.5}, "seed is 0.5; it takes a whole number ≥ 0"),
        ("oort", {"weight_cap": 0}, "weight_cap is 0; it takes a number > 0"),
        (
            "discounted",
            {"discount": 1.0},
            "discount is 1.0; it takes a number from 0.5 to 0.999999",
        ),
        (
            "everyone",
            {"eta": 1},
            "no key 'eta' for the selector everyone; it takes no keys; leave the section out",
        ),
    ],
)
def test_bad_settings_are_refused_by_key_value_and_remedy(
    name: str, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(BadInput) as refused:
        make_selector(name, settings)
    assert str(refused.value) == words


def test_an_unknown_selector_is_refused() -> None:
    with pytest.raises(UnknownName, match="no selector called 'best'; known: discounted, everyone"):
        make_selector("best")


def test_rounds_go_up_and_candidates_are_named_once() -> None:
    one = FairUpperConfidence()
    one.select(3, candidates(["a"]), 1)
    with pytest.raises(BadInput, match="rounds must increase"):
        one.select(3, candidates(["a"]), 1)
    with pytest.raises(BadInput, match="twice"):
        one.select(4, candidates(["a", "a"]), 1)
    with pytest.raises(BadInput, match="weight"):
        one.select(4, [Candidate("a", math.nan)], 1)
    with pytest.raises(BadInput, match=r"reward is 1\.5"):
        one.record_reward(3, "a", 1.5)


def test_an_infinite_eta_owes_nothing() -> None:
    one = FairUpperConfidence(fairness={"worker 0": 0.5}, eta=math.inf)
    times = Counter(name for names in play(one, range(1, 2000)) for name in names)
    assert times["worker 0"] < 0.3 * 2000


def test_weights_count_up_to_the_cap() -> None:
    one = FairUpperConfidence(weight_cap=10.0)
    assert one.select(1, [Candidate("a", 1.0), Candidate("b", 10.0)], 1) == ["b"]
    other = FairUpperConfidence(weight_cap=10.0)
    assert other.select(1, [Candidate("a", 10.0), Candidate("b", 99.0)], 1) == ["a"]
