"""Entries are dicts without zeros, and their sums leave no trace of what cancels."""

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.errors import OutOfBounds
from dealfl.exact import Entries, Integers
from tests.statistics.samples import integers, relaxed, values_of

INT64_MAX = 2**63 - 1
either_width = pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
INDICES = st.integers(0, 6) | st.integers(0, 2**62 - 1)


def dicts(wide: bool) -> st.SearchStrategy[dict[int, int]]:
    return st.dictionaries(INDICES, values_of(96 if wide else 64, room=4), max_size=8)


def added(*parts: dict[int, int]) -> dict[int, int]:
    total: Counter[int] = Counter()
    for part in parts:
        for index, value in part.items():
            total[index] += value
    return {index: total[index] for index in sorted(total) if total[index]}


def assert_canonical(entries: Entries) -> None:
    assert np.all(np.diff(entries.indices) > 0)
    assert len(entries.values.nonzero()) == len(entries) == len(entries.values)


@either_width
@relaxed
@given(data=st.data())
def test_entries_are_a_dict_without_zeros_in_ascending_order(
    wide: bool, data: st.DataObject
) -> None:
    pairs = data.draw(dicts(wide))
    entries = Entries.of(pairs, wide)
    assert list(entries.to_dict().items()) == list(added(pairs).items())
    assert len(entries) == len(added(pairs))
    assert entries.nbytes == len(entries) * (24 if wide else 16)
    assert entries.values.wide is wide
    assert_canonical(entries)


@either_width
@relaxed
@given(data=st.data())
def test_sums_of_entries_are_sums_of_dicts(wide: bool, data: st.DataObject) -> None:
    parts = data.draw(st.lists(dicts(wide), min_size=1, max_size=4))
    entries = [Entries.of(part, wide) for part in parts]
    one_by_one = entries[0]
    for part in entries[1:]:
        one_by_one = one_by_one + part
    joined = Entries.joined(entries)
    assert joined.to_dict() == one_by_one.to_dict() == added(*parts)
    assert joined.same(one_by_one)
    assert_canonical(joined)
    assert_canonical(one_by_one)


@either_width
@relaxed
@given(data=st.data())
def test_entries_of_equal_indices_add_like_any_other(wide: bool, data: st.DataObject) -> None:
    pairs = data.draw(dicts(wide))
    other = {index: data.draw(values_of(64, room=4)) for index in pairs}
    total = Entries.of(pairs, wide) + Entries.of(other, wide)
    assert total.to_dict() == added(pairs, other)
    assert_canonical(total)


@either_width
@relaxed
@given(data=st.data())
def test_entries_and_their_negative_cancel_to_nothing(wide: bool, data: st.DataObject) -> None:
    entries = Entries.of(data.draw(dicts(wide)), wide)
    negative = -entries
    assert negative.to_dict() == {i: -value for i, value in entries.to_dict().items()}
    assert (-negative).same(entries)
    for nothing in (entries + negative, Entries.joined([entries, negative])):
        assert len(nothing) == 0
        assert nothing.nbytes == 0
        assert nothing.values.wide is wide


@either_width
@relaxed
@given(data=st.data())
def test_values_of_equal_indices_are_summed_in_any_order(wide: bool, data: st.DataObject) -> None:
    value = values_of(96 if wide else 64, room=5)
    pairs = data.draw(st.lists(st.tuples(INDICES, value), max_size=16))
    expected = added(*({index: number} for index, number in pairs))
    shuffled = random.Random(1).sample(pairs, len(pairs))
    for given_pairs in (pairs, shuffled):
        indices = np.array([index for index, _ in given_pairs], dtype=np.int64)
        summed = Entries.summed(indices, integers((number for _, number in given_pairs), wide))
        assert summed.to_dict() == expected
        assert_canonical(summed)


@either_width
def test_summed_values_that_cancel_leave_nothing(wide: bool) -> None:
    indices = np.array([9, 2, 9, 2, 9], dtype=np.int64)
    assert Entries.summed(indices, integers([5, 1, -3, -1, -2], wide)).to_dict() == {}
    assert Entries.summed(indices, integers([5, 1, -3, -1, 0], wide)).to_dict() == {9: 2}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({3: INT64_MAX}, {3: 1}),
        ({3: -(2**63)}, {3: -1}),
        ({1: 5, 3: 2**62}, {3: 2**62}),
        ({1: 5, 3: 2**62}, {1: 5, 3: 2**62}),
    ],
)
def test_a_sum_of_entries_beyond_64_bits_is_refused(
    first: dict[int, int], second: dict[int, int]
) -> None:
    parts = [Entries.of(first), Entries.of(second)]
    with pytest.raises(OutOfBounds, match="does not fit"):
        parts[0] + parts[1]
    with pytest.raises(OutOfBounds, match="does not fit"):
        Entries.joined(parts)
    wide = [Entries.of(first, wide=True), Entries.of(second, wide=True)]
    assert Entries.joined(wide).to_dict() == added(first, second)


def test_summed_duplicates_beyond_64_bits_are_refused() -> None:
    indices = np.array([4, 0, 4], dtype=np.int64)
    with pytest.raises(OutOfBounds, match="does not fit"):
        Entries.summed(indices, Integers.of([INT64_MAX, 0, 1]))
    assert Entries.summed(indices, Integers.of([INT64_MAX, 0, -1])).to_dict() == {4: 2**63 - 2}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("values", [[], [0], [0, 5, 0, -7], [1, 2, 3], [0, 0]])
@pytest.mark.parametrize("first", [0, 10_000])
def test_a_dense_array_and_its_entries_are_the_same(
    values: list[int], wide: bool, first: int
) -> None:
    entries = Entries.of_dense(integers(values, wide), first)
    assert entries.to_dict() == {first + i: value for i, value in enumerate(values) if value}
    assert_canonical(entries)
    if first == 0:
        assert entries.dense(len(values)).same(integers(values, wide))


def test_dense_gives_zeros_up_to_the_size_asked_for() -> None:
    assert Entries.of({1: -(2**90)}, wide=True).dense(3).tolist() == [0, -(2**90), 0]
    assert Entries.of({}).dense(2).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (Entries.of({1: 5, 9: -5}), True),
        (Entries.of({1: 5, 9: -5, 4: 0}), True),
        (Entries.of({1: 5, 8: -5}), False),
        (Entries.of({1: 5, 9: 5}), False),
        (Entries.of({1: 5}), False),
        (Entries.of({1: 5, 9: -5}, wide=True), False),
    ],
)
def test_entries_are_the_same_at_the_same_indices_only(other: Any, same: bool) -> None:
    assert Entries.of({9: -5, 1: 5}).same(other) is same
