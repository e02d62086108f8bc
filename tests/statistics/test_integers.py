"""Vectors of integers agree with Python's, or say that they can not."""

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dealfl.errors import OutOfBounds
from dealfl.exact import WORD_BYTES, Integers, unset
from dealfl.exact.encoding import read_values
from dealfl.exact.integers import to_words
from tests.statistics.samples import WIDEST, integers, relaxed, values_of

INT64_MAX = 2**63 - 1
either_width = pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
wides = st.lists(values_of(96), max_size=8)
narrows = st.lists(values_of(64), max_size=8)
pairs_with_room = st.lists(st.tuples(values_of(96, room=1), values_of(96, room=1)), max_size=8)
LIMITS = [sign * (2**bits + step) for sign in (1, -1) for bits in (63, 95, 200) for step in (-1, 0)]
Operator = Callable[[Any, Any], Any]
sums_and_differences = st.sampled_from([operator.add, operator.sub])


@relaxed
@given(pairs=pairs_with_room, operate=sums_and_differences)
def test_wide_sums_and_differences_are_those_of_python(
    pairs: list[tuple[int, int]], operate: Operator
) -> None:
    left, right = (Integers.of([pair[side] for pair in pairs], wide=True) for side in (0, 1))
    result = operate(left, right)
    assert result.tolist() == [operate(a, b) for a, b in pairs]
    assert left.tolist() == [a for a, _ in pairs]
    assert right.tolist() == [b for _, b in pairs]


@relaxed
@given(a=values_of(64), b=values_of(64), operate=sums_and_differences)
@example(a=-1, b=-(2**63), operate=operator.sub)  # whose negative does not fit
@example(a=0, b=-(2**63), operate=operator.sub)
def test_narrow_sums_and_differences_are_those_of_python_or_refused(
    a: int, b: int, operate: Operator
) -> None:
    exact = operate(a, b)
    left, right = Integers.of([1, a]), Integers.of([1, b])
    if -INT64_MAX - 1 <= exact <= INT64_MAX:
        assert operate(left, right).tolist() == [operate(1, 1), exact]
    else:
        with pytest.raises(OutOfBounds, match="does not fit"):
            operate(left, right)


@pytest.mark.parametrize(
    ("a", "b"),
    [(INT64_MAX, 1), (-INT64_MAX, -2), (2**62, 2**62), (-(2**63), -1), (-(2**63), -(2**63))],
)
def test_a_sum_just_beyond_64_bits_is_refused_in_any_place(a: int, b: int) -> None:
    for place in range(3):
        left, right = [0, 0, 0], [0, 0, 0]
        left[place], right[place] = a, b
        with pytest.raises(OutOfBounds):
            Integers.of(left) + Integers.of(right)
        with pytest.raises(OutOfBounds):
            Integers.of(right) + Integers.of(left)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (2**32 - 1, 1),  # a carry
        (-(2**32), -1),  # a borrow
        (2**64 - 1, 1),
        (-(2**64), 2**64 - 1),
        (2**94, 2**94 - 1),
        (-(2**94), 1 - 2**94),
        (2**93, -(2**93)),
        (INT64_MAX, INT64_MAX),
        (-INT64_MAX, -INT64_MAX),
        (0, 0),
    ],
)
def test_wide_integers_carry_at_the_extremes(a: int, b: int) -> None:
    left, right = Integers.of([a], wide=True), Integers.of([b], wide=True)
    assert (left + right).tolist() == [a + b]
    assert (left - right + right).tolist() == [a]
    assert (-left).tolist() == [-a]
    lowest = Integers.of([-(2**95)], wide=True)
    assert (Integers.of([-1], wide=True) - lowest).tolist() == [2**95 - 1]
    assert (-(left + right)).tolist() == [-a - b]


@relaxed
@given(values=wides)
def test_wide_integers_are_kept_in_one_way_only(values: list[int]) -> None:
    for made in (
        Integers.of(values, wide=True),
        -Integers.of([-value for value in values], wide=True),
    ):
        assert made.same(Integers.of(values, wide=True))
        assert ((made.low >= 0) & (made.low < 2**32)).all()


def read(data: bytes, width: int, wide: bool) -> Integers:
    values = unset(len(data) // width, wide)
    count = read_values(np.frombuffer(data, dtype=np.uint8), width, *values.parts)
    assert count == len(values.nonzero())
    return values


@either_width
@relaxed
@given(data=st.data())
def test_every_vector_answers_as_a_list_does(wide: bool, data: st.DataObject) -> None:
    values = data.draw(wides if wide else narrows)
    made = integers(values, wide)
    assert made.tolist() == values
    assert len(made) == len(values)
    assert made.wide is wide
    assert made.nbytes == len(values) * (16 if wide else 8)
    assert (-made).tolist() == [-value for value in values]
    assert made.negative.tolist() == [value < 0 for value in values]
    assert made.nonzero().tolist() == [i for i, value in enumerate(values) if value]
    assert made[1:].tolist() == values[1:]
    backwards = np.arange(len(values), dtype=np.int64)[::-1]
    assert made[backwards].tolist() == values[::-1]


@either_width
@relaxed
@given(data=st.data())
def test_words_are_twos_complement_and_give_the_values_back(
    wide: bool, data: st.DataObject
) -> None:
    values = data.draw(wides if wide else narrows)
    rows = to_words(*integers(values, wide).parts)
    assert rows.shape == (len(values), WORD_BYTES)
    assert rows.tobytes() == b"".join(
        value.to_bytes(WORD_BYTES, "little", signed=True) for value in values
    )
    width = 12 if wide else 8
    assert read(rows[:, :width].tobytes(), width, wide).same(integers(values, wide))


def test_words_of_a_narrow_vector_may_be_read_as_wide() -> None:
    values = [-(2**63), INT64_MAX, -1, 0]
    assert (
        read(to_words(*Integers.of(values).parts)[:, :8].tobytes(), 8, wide=True).tolist() == values
    )


@pytest.mark.parametrize(
    ("value", "wide"),
    [(INT64_MAX, False), (-(2**63), False), (WIDEST, True), (-(2**95), True)],
)
def test_words_of_the_extremes_are_read(value: int, wide: bool) -> None:
    width = 12 if wide else 8
    assert read(value.to_bytes(width, "little", signed=True), width, wide).tolist() == [value]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (Integers.of([1, 2]), Integers.of([1, 2]), True),
        (Integers.of([1, 2]), Integers.of([2, 1]), False),
        (Integers.of([1]), Integers.of([1, 0]), False),
        (Integers.of([1]), Integers.of([1], wide=True), False),
        (Integers.of([2**40], wide=True), Integers.of([2**40], wide=True), True),
        (Integers.of([2**40], wide=True), Integers.of([2**41], wide=True), False),
        (Integers.of([1], wide=True), Integers.of([2], wide=True), False),
        (Integers.of([]), Integers.of([]), True),
    ],
)
def test_same_means_values_order_and_width(first: Integers, second: Integers, same: bool) -> None:
    assert first.same(second) is same
    assert second.same(first) is same


@relaxed
@given(values=st.lists(st.integers(-(2**84), 2**84), max_size=8))
def test_floats_are_the_nearest_ones(values: list[int]) -> None:
    assert Integers.of(values, wide=True).to_float().tolist() == [float(value) for value in values]


@relaxed
@given(values=narrows)
def test_floats_of_narrow_integers_are_the_nearest_ones(values: list[int]) -> None:
    assert Integers.of(values).to_float().tolist() == [float(value) for value in values]


@relaxed
@given(values=wides)
def test_floats_of_the_widest_are_off_by_a_rounding_at_most(values: list[int]) -> None:
    for value, number in zip(
        values, Integers.of(values, wide=True).to_float().tolist(), strict=True
    ):
        assert abs(int(number) - value) <= abs(value) >> 52


@pytest.mark.parametrize("wide", [False, True])
def test_zeros_are_zeros_of_the_width_asked_for(wide: bool) -> None:
    zeros = Integers.zeros(3, wide)
    assert zeros.tolist() == [0, 0, 0]
    assert zeros.wide is wide


@either_width
@relaxed
@given(data=st.data())
def test_sums_of_runs_are_those_of_python(wide: bool, data: st.DataObject) -> None:
    values = data.draw(st.lists(values_of(96 if wide else 64, room=5), min_size=1, max_size=16))
    cuts = data.draw(st.sets(st.integers(1, len(values)), max_size=5)) - {len(values)}
    starts = [0, *sorted(cuts)]
    expected = [sum(values[a:b]) for a, b in pairwise([*starts, len(values)])]
    summed = integers(values, wide).sum_runs(np.array(starts))
    assert summed.same(integers(expected, wide))


@pytest.mark.parametrize("values", [[INT64_MAX, 1], [-(2**63), -1], [2**62] * 2, [INT64_MAX] * 9])
def test_a_run_whose_sum_is_beyond_64_bits_is_refused(values: list[int]) -> None:
    with pytest.raises(OutOfBounds, match="does not fit"):
        Integers.of([5, *values]).sum_runs(np.array([0, 1]))
    assert Integers.of(values, wide=True).sum_runs(np.array([0])).tolist() == [sum(values)]


@pytest.mark.parametrize(
    "values", [[INT64_MAX, 1, -1], [-(2**63), -5, 5], [2**62, 2**62, 2**62, -(2**62), -(2**62)]]
)
def test_a_run_may_pass_beyond_64_bits_on_its_way_to_a_sum_that_fits(values: list[int]) -> None:
    assert Integers.of(values).sum_runs(np.array([0])).tolist() == [sum(values)]
