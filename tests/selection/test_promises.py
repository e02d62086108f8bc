"""What can be promised: the few sets that are looked at against all sets there are."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealfl.server.selection import FairUpperConfidence
from dealfl.server.selection.feasibility import (
    capacities,
    estimate_availability,
    find_excess,
    kept_share,
)
from tests.selection.playing import candidates, play, save


def capacity(awake: list[float], count: int) -> float:
    """E[min(count, awake)], by looking at every set of workers that may be awake."""
    total = 0.0
    for mask in range(2 ** len(awake)):
        chance, number = 1.0, 0
        for place, one in enumerate(awake):
            up = mask >> place & 1
            chance *= one if up else 1 - one
            number += up
        total += chance * min(count, number)
    return total


def worst(promised: list[float], awake: list[float], count: int) -> float:
    """The largest excess of any set."""
    everybody = range(len(promised))
    return max(
        sum(promised[i] for i in some) - capacity([awake[i] for i in some], count)
        for size in range(1, len(promised) + 1)
        for some in combinations(everybody, size)
    )


shares = st.floats(0.01, 1.0)


@settings(max_examples=60, deadline=None)
@given(workers=st.lists(st.tuples(shares, shares), min_size=1, max_size=5), count=st.integers(1, 3))
def test_no_set_is_worse_than_the_one_that_is_found(
    workers: list[tuple[float, float]], count: int
) -> None:
    promised, awake = [r for r, _ in workers], [p for _, p in workers]
    found = find_excess(np.array(promised), np.array(awake), count)
    by_hand = worst(promised, awake, count)
    if found is None:
        assert by_hand <= 1e-8
    else:
        assert found.promised - found.possible == pytest.approx(by_hand)
    share = kept_share(np.array(promised), np.array(awake), count)
    cut = [min(r, share * p) for r, p in workers]
    assert worst(cut, awake, count) <= 1e-6
    more = [min(r, 1.01 * share * p) for r, p in workers]
    assert share == 1 or worst(more, awake, count) > 0, "no larger share could be kept"


def test_capacities_are_expectations() -> None:
    awake = [0.9, 0.2, 0.5, 0.7]
    for count in (1, 2, 3, 9):
        expected = [capacity(awake[:size], count) for size in range(1, 5)]
        assert capacities(np.array(awake), count).tolist() == pytest.approx(expected)


def test_an_estimated_availability_is_optimistic() -> None:
    awake, rounds = np.array([0, 5, 10, 0], np.int32), np.array([10, 10, 10, 0], np.int32)
    expected = [0.1, 0.5 + 2 * math.sqrt(0.5 * 0.5 / 10) + 0.1, 1.0, 1.0]
    assert estimate_availability(awake, rounds).tolist() == pytest.approx(expected)


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
    promises = {"w1": 0.05, "*": 0.9}
    whole = play(FairUpperConfidence(fairness=promises), range(1, 330))
    for stop in (99, 100, 101, 102, 199, 205, 320):
        first = FairUpperConfidence(fairness=promises)
        second = FairUpperConfidence(fairness=promises)
        begun = play(first, range(1, stop))
        second.restore(save(first))
        assert begun + play(second, range(stop, 330)) == whole
    assert second.over_promised() is not None
