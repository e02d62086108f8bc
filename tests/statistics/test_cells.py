"""Cells of every kind are one array of integers; a state changes wholly or not at all."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.errors import Incompatible, OutOfBounds
from dealfl.exact import (
    BLOCK,
    ArraySpec,
    Cells,
    DenseCells,
    Entries,
    Integers,
    Schema,
    SparseCells,
    State,
    Statistics,
    Storage,
    in_memory,
)
from dealfl.exact import state as state_module
from tests.statistics.samples import SCHEMA, as_dicts, integers, made, relaxed, values_of

SIZE = 3 * BLOCK + 5
KINDS: dict[str, tuple[Callable[[], Cells], int]] = {
    "dense 32": (lambda: DenseCells(ArraySpec("a", SIZE, 32)), 32),
    "dense 64": (lambda: DenseCells(ArraySpec("a", SIZE, 64)), 64),
    "dense 96": (lambda: DenseCells(ArraySpec("a", SIZE, 96)), 96),
    "sparse": (SparseCells, 64),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
PLACES = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK, SIZE - 1]
STORAGES: dict[str, Storage] = {"dense": DenseCells, "sparse": lambda spec: SparseCells()}
every_storage = pytest.mark.parametrize("storage", STORAGES.values(), ids=STORAGES)
NARROW = Schema("counter", {}, (ArraySpec("few", 6, 32), ArraySpec("many", SIZE)))


def indices(places: Any) -> Any:
    return np.array(list(places), dtype=np.int64)


@every_kind
@relaxed
@given(data=st.data())
def test_cells_of_any_kind_are_a_dict_of_non_zeros(kind: str, data: st.DataObject) -> None:
    make, bits = KINDS[kind]
    cells, model = make(), dict.fromkeys(PLACES, 0)
    values = values_of(bits) | st.just(0)
    for _ in range(data.draw(st.integers(1, 5))):
        written = data.draw(st.dictionaries(st.sampled_from(PLACES), values, max_size=6))
        cells.put(indices(written), integers(written.values(), bits == 96))
        model |= written
        asked = data.draw(st.lists(st.sampled_from(PLACES), max_size=8))
        read = cells.at(indices(asked))
        assert read.same(integers([model[place] for place in asked], bits == 96))
        start, stop = sorted(data.draw(st.tuples(*[st.sampled_from([*PLACES, 7, SIZE])] * 2)))
        held = cells.entries(start, stop)
        assert held.to_dict() == {i: v for i, v in model.items() if v and start <= i < stop}
        assert list(held.to_dict()) == sorted(held.to_dict())
        assert held.values.wide is (bits == 96)


@every_kind
def test_what_was_read_does_not_change_with_the_cells(kind: str) -> None:
    make, bits = KINDS[kind]
    cells, all_places = make(), indices(range(SIZE))
    cells.put(all_places, integers([5] * SIZE, bits == 96))
    read, held = cells.at(all_places), cells.entries(0, SIZE)
    cells.put(all_places, integers([7] * SIZE, bits == 96))
    assert set(read.tolist()) == {5}
    assert set(held.values.tolist()) == {5}
    read.low[:] = 9
    held.values.low[:] = 9
    assert set(cells.at(all_places).tolist()) == {7}


def test_zeros_leave_no_trace_in_sparse_cells() -> None:
    cells, never_used = SparseCells(), SparseCells()
    places = indices([0, 1, BLOCK, 10**15])
    cells.put(places, Integers.of([1, 2, 3, 4]))
    assert vars(cells) != vars(never_used)
    cells.put(places[::-1], Integers.of([0, 0, 0, 0]))
    assert vars(cells) == vars(never_used)
    cells.put(places, Integers.of([0, 0, 0, 0]))
    cells.at(places)
    cells.entries(0, 10**16)
    assert vars(cells) == vars(never_used)


def test_sparse_cells_reach_the_end_of_the_largest_arrays() -> None:
    cells, last = SparseCells(), 2**62 - 1
    cells.put(indices([last, 3]), Integers.of([-5, 4]))
    assert cells.entries(0, 2**62).to_dict() == {3: 4, last: -5}
    assert cells.entries(last, 2**62).to_dict() == {last: -5}
    assert cells.entries(0, last).to_dict() == {3: 4}


def test_arrays_too_large_for_memory_are_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(in_memory(ArraySpec("a", 2**62)), SparseCells)
    monkeypatch.setattr(state_module, "DENSE_LIMIT", 100)
    assert isinstance(in_memory(ArraySpec("a", 100, 32)), DenseCells)
    assert isinstance(in_memory(ArraySpec("a", 101, 32)), SparseCells)
    assert isinstance(in_memory(ArraySpec("a", 101, 96)), DenseCells)  # sparse ones are not wide


@relaxed
@given(data=st.data())
def test_states_of_any_storage_add_like_statistics(data: st.DataObject) -> None:
    changes = st.fixed_dictionaries(
        {
            "few": st.dictionaries(st.integers(0, 5), st.integers(-9, 9)),
            "many": st.dictionaries(st.sampled_from(PLACES), values_of(64, room=4)),
        }
    )
    states = [State(NARROW, storage) for storage in STORAGES.values()]
    total = Statistics.zero(NARROW)
    for drawn in data.draw(st.lists(changes, max_size=5)):
        delta = made(NARROW, drawn)
        total = total + delta
        for state in states:
            state.commit(state.propose(delta))
    for state in states:
        assert state.snapshot() == total
        assert state.digest() == total.digest()
        assert state.cells("many").at(indices(PLACES)).tolist() == [
            total["many"].to_dict().get(place, 0) for place in PLACES
        ]
        assert state.whole("few").same(total["few"].dense(6))


REFUSED: list[tuple[dict[str, dict[int, int]], str]] = [
    ({"few": {0: 1}}, "a count in array 'few' does not fit 32 bits"),
    ({"few": {1: -1}}, "a count in array 'few' does not fit 32 bits"),
    ({"few": {2: 2**31}}, "a count in array 'few' does not fit 32 bits"),
    ({"few": {0: 2**40}}, "a count in array 'few' does not fit 32 bits"),
    ({"many": {7: 1}}, "does not fit its width"),
]


@every_storage
@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_a_refused_change_leaves_the_state_as_it_was(
    storage: Storage, change: dict[str, dict[int, int]], message: str
) -> None:
    state = State(NARROW, storage)
    filled = made(NARROW, {"few": {0: 2**31 - 1, 1: -(2**31)}, "many": {7: 2**63 - 1}})
    state.commit(state.propose(filled))
    before = state.digest()
    good = {"few": {3: 1}, "many": {5: 1}}
    delta = made(NARROW, {name: {**good[name], **change.get(name, {})} for name in good})
    with pytest.raises(OutOfBounds, match=message):
        state.propose(delta)
    assert state.snapshot() == filled
    assert state.digest() == before
    assert state.cells("few").at(indices([3])).tolist() == [0]


def test_counts_of_32_bits_reach_their_extremes_and_come_back() -> None:
    state = State(NARROW, in_memory)
    extremes = made(NARROW, {"few": {0: 2**31 - 1, 1: -(2**31)}})
    for delta in (extremes, made(NARROW, {"few": {0: -1, 1: 1}})):
        state.commit(state.propose(delta))
    assert as_dicts(state.snapshot())["few"] == {0: 2**31 - 2, 1: 1 - 2**31}


def test_statistics_of_another_schema_are_not_proposed() -> None:
    with pytest.raises(Incompatible, match="cannot be used by learner counter"):
        State(NARROW, in_memory).propose(Statistics.zero(Schema("other", {}, NARROW.arrays)))


@every_storage
def test_a_proposal_changes_nothing_until_it_is_committed(storage: Storage) -> None:
    state = State(NARROW, storage)
    delta = made(NARROW, {"few": {1: 4}, "many": {BLOCK: 6}})
    proposals = state.propose(delta)
    assert proposals["many"].indices.tolist() == [BLOCK]
    assert proposals["many"].values.tolist() == [6]
    assert state.snapshot().is_zero
    assert state.digest() == Statistics.zero(NARROW).digest()
    state.commit(proposals)
    assert state.snapshot() == delta


@every_storage
def test_later_changes_do_not_reach_a_snapshot(storage: Storage) -> None:
    state = State(NARROW, storage)
    delta = made(NARROW, {"few": dict.fromkeys(range(6), 3), "many": {0: 1, SIZE - 1: -1}})
    state.commit(state.propose(delta))
    snapshot, digest = state.snapshot(), state.digest()
    state.commit(state.propose(delta))
    assert snapshot == delta
    assert snapshot.digest() == digest
    assert state.snapshot() == delta + delta
    snapshot["few"].values.low[:] = 99
    assert state.snapshot() == delta + delta


def test_the_whole_array_after_a_change_is_computed_ahead_without_making_it() -> None:
    state = State(SCHEMA, in_memory)
    state.commit(state.propose(made(SCHEMA, {"few": {1: 5}, "wide": {0: 2**90, 2: -1}})))
    proposals = state.propose(made(SCHEMA, {"few": {1: -5, 4: 2}, "wide": {0: 1, 1: -(2**94)}}))
    assert state.after("few", proposals).tolist() == [0, 0, 0, 0, 2]
    assert state.after("wide", proposals).tolist() == [2**90 + 1, -(2**94), -1]
    assert state.whole("few").tolist() == [0, 5, 0, 0, 0]
    assert state.whole("wide").tolist() == [2**90, 0, -1]
    state.whole("few").low[:] = 9
    assert state.whole("few").tolist() == [0, 5, 0, 0, 0]


def test_a_snapshot_is_made_once_while_nothing_changes() -> None:
    schema = Schema("counter", {}, (ArraySpec("counts", 9),))
    state = State(schema, in_memory)
    delta = Statistics(schema, {"counts": Entries.of({7: 1})})
    state.commit(state.propose(delta))
    state.digest()
    first = state.snapshot()
    assert state.snapshot() is first
    state.commit(state.propose(delta))
    assert state.snapshot() == delta + delta
    state.digest()
    assert state.snapshot() == delta + delta
    assert first == delta, "a copy that was given away does not change"
    cells = state.cells("counts")
    assert isinstance(cells, DenseCells)
    held = state.snapshot()
    cells.low[3] = 5  # as compiled loops do
    state.stale("counts")[0] = True
    assert state.snapshot()["counts"].to_dict() == {3: 5, 7: 2}
    state.digest()
    assert state.snapshot()["counts"].to_dict() == {3: 5, 7: 2}
    assert held == delta + delta
    assert pickle.loads(pickle.dumps(state)).snapshot() == state.snapshot()
