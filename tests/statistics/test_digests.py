"""A digest is equal exactly when the statistics are, however they came to be and are stored."""

import hashlib
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.exact import (
    BLOCK,
    ArraySpec,
    DenseCells,
    Entries,
    Schema,
    SparseCells,
    State,
    Statistics,
    Storage,
    block_hashes,
    in_memory,
)
from dealfl.exact.encoding import array_digest
from dealfl.exact.state import BlockHashes
from tests.statistics.samples import SCHEMA, any_statistics, as_dicts, made, relaxed

NARROW = made(
    Schema("counter", {"bits": 8}, (ArraySpec("counts", 20_000), ArraySpec("few", 9, 32))),
    {"counts": {0: 1, 4095: -1, 4096: 2**63 - 1, 19_999: -(2**63)}, "few": {3: 300}},
)
WIDE = made(
    Schema("adder", {"bound": [0.5, 16.0]}, (ArraySpec("moments", 5000, 96),)),
    {"moments": {0: -1, 1: 2**94, 4999: -(2**94)}},
)
SMALL = Schema("counter", {}, (ArraySpec("counts", 3 * BLOCK), ArraySpec("few", 9, 32)))
PLACES = [0, 1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 7, 3 * BLOCK - 1]


def by_hand(statistics: Statistics) -> str:
    """The digest as the documentation describes it, one value at a time."""

    def sha(data: bytes) -> bytes:
        return hashlib.sha256(data).digest()

    whole = b"dealfl statistics 1\0" + sha(statistics.schema.canonical())
    for name in sorted(statistics):
        blocks: dict[int, bytes] = {}
        for index, value in sorted(statistics[name].to_dict().items()):
            record = (index % 4096).to_bytes(2, "little") + value.to_bytes(
                16, "little", signed=True
            )
            blocks[index // 4096] = blocks.get(index // 4096, b"") + record
        array = b"".join(block.to_bytes(8, "little") + sha(blocks[block]) for block in blocks)
        whole += sha(name.encode()) + sha(array)
    return hashlib.sha256(whole).hexdigest()


def state_of(statistics: Statistics, storage: Storage = in_memory) -> State:
    state = State(statistics.schema, storage)
    state.commit(state.propose(statistics))
    return state


def test_the_digest_of_narrow_statistics_never_changes() -> None:
    assert NARROW.digest() == "6a07b861e11c6ac35808e7ea476c7319cda3551ec11ea2107d9b15faca8628d8"


def test_the_digest_of_wide_statistics_never_changes() -> None:
    assert WIDE.digest() == "3cc80656b376536206ef52931e22b4b450ad26ef61007d68f85b798872590380"


@relaxed
@given(statistics=any_statistics())
def test_the_digest_is_the_one_of_the_description(statistics: Statistics) -> None:
    assert statistics.digest() == by_hand(statistics)


@pytest.mark.parametrize(
    "storage", [DenseCells, lambda spec: SparseCells()], ids=["dense", "sparse"]
)
def test_the_digest_does_not_depend_on_the_storage(storage: Storage) -> None:
    assert state_of(NARROW, storage).digest() == NARROW.digest()


def test_the_digest_does_not_depend_on_the_order_of_arrays_in_memory() -> None:
    backwards = dict(reversed(list(NARROW.arrays.items())))
    assert list(backwards) != list(NARROW.arrays)
    assert Statistics(NARROW.schema, backwards).digest() == NARROW.digest()


def test_the_hash_of_a_block_does_not_depend_on_the_width_of_its_integers() -> None:
    pairs = {0: 1, 4095: -1, 4096: 2**63 - 1, 9000: -(2**63)}
    assert block_hashes(Entries.of(pairs)) == block_hashes(Entries.of(pairs, wide=True))


def test_only_blocks_that_hold_something_have_a_hash() -> None:
    assert block_hashes(Entries.of({})) == {}
    assert set(block_hashes(Entries.of({0: 1, 1: 1, 3 * BLOCK: 1, 2**62 - 1: 1}))) == {
        0,
        3,
        (2**62 - 1) // BLOCK,
    }


def test_the_hash_of_a_block_is_the_same_alone_and_among_others() -> None:
    parts = [{1: 5, 4095: -5}, {4096: 7}, {8192: 1, 8193: 2}]
    together = block_hashes(Entries.of({**parts[0], **parts[1], **parts[2]}))
    assert [block_hashes(Entries.of(part)) for part in parts] == [
        {block: together[block]} for block in range(3)
    ]


def neighbours(pairs: dict[int, int], size: int) -> list[dict[int, int]]:
    """Every dict that differs from `pairs` in one value or one index, near by or a block away."""
    found = []
    for index, value in pairs.items():
        rest = {i: v for i, v in pairs.items() if i != index}
        found += [{**rest, index: other} for other in {0, 7, -value // 2, value ^ 1} - {value}]
        places = {(index + step) % size for step in (1, -1, BLOCK, -BLOCK)} - set(pairs)
        found += [{**rest, place: value} for place in places]
    return found


def test_every_single_change_of_a_value_or_an_index_changes_the_digest() -> None:
    ours = as_dicts(NARROW)
    changed = [
        made(NARROW.schema, {**ours, spec.name: pairs})
        for spec in NARROW.schema.arrays
        for pairs in neighbours(ours[spec.name], spec.size)
    ]
    assert len(changed) > 20
    digests = {statistics.digest() for statistics in changed}
    assert NARROW.digest() not in digests
    assert len(digests) == len({statistics.to_bytes() for statistics in changed})


@relaxed
@given(bit=st.integers(0, 93), negative=st.booleans())
def test_every_bit_of_a_wide_value_counts(bit: int, negative: bool) -> None:
    value = -(2**94) if negative else 2**94
    changed = made(WIDE.schema, {"moments": {0: -1, 1: value ^ (1 << bit), 4999: -(2**94)}})
    assert changed.digest() != WIDE.digest()


def test_every_single_change_of_the_schema_changes_the_digest() -> None:
    schemas = [
        Schema("counter", {"bits": 8}, (ArraySpec("counts", 9), ArraySpec("few", 9))),
        Schema("counters", {"bits": 8}, (ArraySpec("counts", 9), ArraySpec("few", 9))),
        Schema("counter", {"bits": 9}, (ArraySpec("counts", 9), ArraySpec("few", 9))),
        Schema("counter", {"bits": "8"}, (ArraySpec("counts", 9), ArraySpec("few", 9))),
        Schema("counter", {"bit": 8}, (ArraySpec("counts", 9), ArraySpec("few", 9))),
        Schema("counter", {}, (ArraySpec("counts", 9), ArraySpec("few", 9))),
        Schema("counter", {"bits": 8, "a": None}, (ArraySpec("counts", 9), ArraySpec("few", 9))),
        Schema("counter", {"bits": 8}, (ArraySpec("counts", 10), ArraySpec("few", 9))),
        Schema("counter", {"bits": 8}, (ArraySpec("counts", 9, 32), ArraySpec("few", 9))),
        Schema("counter", {"bits": 8}, (ArraySpec("counts", 9), ArraySpec("new", 9))),
        Schema("counter", {"bits": 8}, (ArraySpec("counts", 9),)),
    ]
    for values in ({}, {"counts": {1: 5}}):
        digests = {made(schema, values).digest() for schema in schemas}
        assert len(digests) == len(schemas)


def test_the_same_values_in_another_array_have_another_digest() -> None:
    schema = Schema("counter", {}, (ArraySpec("a", 9), ArraySpec("b", 9)))
    assert made(schema, {"a": {1: 5}}).digest() != made(schema, {"b": {1: 5}}).digest()


@pytest.mark.parametrize(
    "storage", [DenseCells, lambda spec: SparseCells()], ids=["dense", "sparse"]
)
@pytest.mark.parametrize("seed", range(4))
def test_a_digest_kept_up_to_date_is_that_of_the_statistics_from_scratch(
    storage: Storage, seed: int
) -> None:
    generator = random.Random(seed)
    state, total = State(SMALL, storage), Statistics.zero(SMALL)
    for _ in range(60):
        changes = {i: generator.randint(-2, 2) for i in generator.sample(PLACES, 3)}
        delta = made(SMALL, {"counts": changes, "few": {generator.randrange(9): 1}})
        if generator.random() < 0.2:
            delta = -total  # everything is forgotten
        state.commit(state.propose(delta))
        total = total + delta
        if generator.random() < 0.5:
            assert state.digest() == by_hand(total)
    assert state.digest() == total.digest() == state.snapshot().digest() == by_hand(total)
    state.commit(state.propose(-total))
    assert state.digest() == Statistics.zero(SMALL).digest() == State(SMALL, storage).digest()


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The blocks that a state hashes from now on."""
    blocks: list[int] = []

    def counted(entries: Entries) -> dict[int, bytes]:
        hashes = block_hashes(entries)
        blocks.extend(np.unique(entries.indices // BLOCK).tolist())
        return hashes

    monkeypatch.setattr("dealfl.exact.state.block_hashes", counted)
    return blocks


def test_only_blocks_that_were_touched_are_hashed_again(hashed: list[int]) -> None:
    state = state_of(made(SMALL, {"counts": dict.fromkeys(range(3 * BLOCK), 1), "few": {1: 1}}))
    state.digest()
    assert sorted(hashed) == [0, 0, 1, 2]
    hashed.clear()
    state.digest()
    assert hashed == []
    for place in (BLOCK, BLOCK + 5):
        state.commit(state.propose(made(SMALL, {"counts": {place: 1}})))
    assert state.digest() == state.snapshot().digest()
    assert hashed == [1]


def test_a_refused_change_touches_no_block(hashed: list[int]) -> None:
    state = state_of(made(SCHEMA, {"few": {0: 2**31 - 1}}))
    before = state.digest()
    hashed.clear()
    with pytest.raises(ValueError, match="does not fit 32 bits"):
        state.propose(made(SCHEMA, {"few": {0: 1}, "many": {5: 1}}))
    assert state.digest() == before
    assert hashed == []


def test_an_array_of_very_many_blocks_is_hashed_only_where_it_changed() -> None:
    hashes = BlockHashes(BLOCK * (2**17 + 1))
    content: dict[int, int] = {}
    read: list[tuple[int, int]] = []

    def entries(first: int, stop: int) -> Entries:
        read.append((first // BLOCK, stop // BLOCK))
        return Entries.of({place: v for place, v in content.items() if first <= place < stop})

    for changes, blocks in (
        ({5: 1, 6: 2, 3 * BLOCK: 1}, [(0, 1), (3, 4)]), ({3 * BLOCK + 1: 4}, [(3, 4)]), ({}, []),
        ({7: 5}, [(0, 1)]), ({8: 1, BLOCK: 1}, [(0, 2)]),
    ):  # fmt: skip
        content |= changes
        hashes.mark(np.array(sorted(changes), dtype=np.int64))
        read.clear()
        expected = array_digest(block_hashes(Entries.of(content)))
        assert hashes.digest(entries) == expected
        assert read == blocks
