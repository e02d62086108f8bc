"""What can be promised: the few sets that are looked at against all sets there are."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealfl.server.selection.feasibility import capacities, find_excess, kept_share


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
