"""A paged array is an array: under any operations and policies."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dealfl.errors import OutOfBounds
from dealfl.storage import BudgetedThetaLru, Frames, Lru, Policy
from tests.learners.test_interrupts import interrupted
from tests.memory.arrays import (
    POLICIES,
    WIDE_PAGE,
    cells,
    opened,
)

every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
SIZE = 6 * WIDE_PAGE
places = st.lists(st.integers(0, SIZE - 1), unique=True, max_size=12)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), places, st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just("at"), places, st.just(0)),
        st.tuples(st.sampled_from(["flush", "round"]), st.just([]), st.just(0)),
    ),
    max_size=25,
)


@every_policy
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=operations)
def test_any_operations_give_what_a_plain_array_gives(
    policy: Callable[[int], Policy], drawn: list[tuple[str, list[int], int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = np.zeros(SIZE, dtype=np.int64)
        frames = Frames(policy(2))
        array = opened(Path(folder) / "a", shared=frames)
        for name, indices, value in drawn:
            if name == "put":
                values = np.arange(len(indices)) ^ np.int64(value)
                array.put(cells(*indices), values)
                model[indices] = values
            elif name == "at":
                assert array.at(cells(*indices)).tolist() == model[indices].tolist()
            elif name == "flush":
                array.flush()
            else:
                frames.new_round()
            assert array.resident <= 2
        assert np.array_equal(array.at(np.arange(SIZE)), model)
        array.close()


@pytest.mark.parametrize(
    ("kind", "lowest", "highest"),
    [("<i4", -(2**31), 2**31 - 1), ("<u4", 0, 2**32 - 1), ("<i8", -(2**63), 2**63 - 1)],
)
def test_every_width_reaches_its_extremes(
    tmp_path: Path, kind: str, lowest: int, highest: int
) -> None:
    array = opened(tmp_path / "a", kind=kind)
    last = len(array) - 1
    array.put(cells(last, 0), cells(lowest, highest))
    assert array.at(cells(0, last, 1)).tolist() == [highest, lowest, 0]
    if kind != "<i8":
        for value in (lowest - 1, highest + 1):
            with pytest.raises(OutOfBounds, match="does not fit"):
                array.put(cells(1, 2), cells(5, value))
        assert array.at(cells(1, 2)).tolist() == [0, 0]
    array.close()


def test_places_outside_the_array_are_refused(tmp_path: Path) -> None:
    array = opened(tmp_path / "a")
    for place in (-1, SIZE):
        with pytest.raises(OutOfBounds, match="an index is outside"):
            array.at(cells(0, place))
        with pytest.raises(OutOfBounds, match="an index is outside"):
            array.put(cells(0, place), cells(7, 7))
    assert array.at(cells(0)).tolist() == [0]
    array.close()


def test_swaps_are_counted(tmp_path: Path) -> None:
    frames = Frames(Lru(2))
    array = opened(tmp_path / "a", shared=frames)
    starts = np.arange(0, SIZE, WIDE_PAGE)
    array.at(starts)
    assert (frames.swaps.ins, frames.swaps.outs) == (6, 0)
    array.put(starts, starts + 1)
    assert frames.swaps.ins == 6 + 6
    array.flush()
    assert frames.swaps.outs == 6
    array.at(starts[-2:])
    assert frames.swaps.ins == 12  # flushed, but still here
    array.close()


def test_arrays_share_the_frames(tmp_path: Path) -> None:
    frames = Frames(Lru(3))
    first, second = (opened(tmp_path / name, shared=frames) for name in "ab")
    for array, value in ((first, 5), (second, 6)):
        array.put(np.arange(SIZE), np.full(SIZE, value))
        assert first.resident + second.resident == 3
    assert set(first.at(np.arange(SIZE)).tolist()) == {5}
    assert set(second.at(np.arange(SIZE)).tolist()) == {6}
    first.close()
    second.close()


def test_deferred_changes_wait_are_read_and_come_in_a_later_round(tmp_path: Path) -> None:
    frames = Frames(BudgetedThetaLru(2, 0.5))
    array = opened(tmp_path / "a", shared=frames)
    starts = np.arange(0, SIZE, WIDE_PAGE)
    array.put(starts, starts + 1)
    assert frames.swaps.ins == 3  # two frames and one replacement
    assert array.at(starts).tolist() == (starts + 1).tolist()
    for expected in (2, 1, 0):
        frames.new_round()
        assert array.waiting == expected
    assert array.at(starts).tolist() == (starts + 1).tolist()
    array.close()


@every_policy
def test_an_interrupt_while_pages_move_loses_no_change(
    policy: Callable[[int], Policy], tmp_path: Path
) -> None:
    expected = np.zeros(SIZE, dtype=np.int64)
    firsts = np.arange(6) * WIDE_PAGE
    expected[firsts] = 1 + np.arange(6)
    for round_first in (True, False):
        line, goes_on = 1, True
        while goes_on:
            frames = Frames(policy(2))
            array = opened(tmp_path / f"{round_first} {line}", shared=frames)
            array.put(firsts, expected[firsts])  # with a budget, most of it waits
            move = frames.new_round if round_first else partial(array.at, firsts)
            goes_on = interrupted(move, line, KeyboardInterrupt) is not None
            for _ in range(2):  # as it is now, and after every page has left
                assert np.array_equal(array.at(np.arange(SIZE)), expected), f"line {line}"
                array.flush()
                frames.new_round()
            array.close()
            line += 1
        assert line > 5


def test_deferred_changes_do_not_fill_the_memory(tmp_path: Path) -> None:
    frames = Frames(BudgetedThetaLru(2, 0.5))
    array = opened(tmp_path / "a", shared=frames)
    everything = np.arange(SIZE)
    array.put(everything, everything)
    assert array.waiting <= 32
    assert np.array_equal(array.at(everything), everything)
    array.close()
