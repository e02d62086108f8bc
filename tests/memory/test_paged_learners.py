"""Learners run on paged arrays unchanged, and bit for bit as in memory."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dealfl.data import Examples
from dealfl.errors import BadInput
from dealfl.exact import CHOICE, ArraySpec, DenseCells, Integers, PagedStorage, Schema, State, paged
from dealfl.learners import PersonalizedPageRank, Tikhonov
from dealfl.learners.checks import check_learner
from dealfl.storage import BudgetedThetaLru, Policy, ThetaLru
from tests.learners.subjects import SUBJECTS, pagerank, tikhonov
from tests.memory.arrays import POLICIES, no_sync

every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
Storages = Callable[..., PagedStorage]


@pytest.fixture(autouse=True)
def one_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of both models are equal to the last bit only if the same twin computes them."""
    monkeypatch.setattr(CHOICE, "mode", "never")


@pytest.fixture
def storages(tmp_path: Path) -> Iterator[Storages]:
    """Makes storage in a folder of its own; at most 50 at a time are open."""
    numbers, made = itertools.count(), list[PagedStorage]()

    def make(frames: int, policy: Callable[[int], Policy] = ThetaLru) -> PagedStorage:
        if len(made) > 50:
            made.pop(0).close()
        storage = PagedStorage(tmp_path / str(next(numbers)), policy(frames), sync=no_sync)
        made.append(storage)
        return storage

    yield make
    for storage in made:
        storage.close()


@pytest.mark.parametrize("bits", [32, 64, 96])
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_paged_cells_are_dense_cells(bits: int, data: st.DataObject, storages: Storages) -> None:
    spec = ArraySpec("a", 3000, bits)
    ours, theirs = storages(2)(spec), DenseCells(spec)
    limit = 2 ** (bits - 2)
    for _ in range(data.draw(st.integers(1, 4))):
        drawn = data.draw(
            st.dictionaries(st.integers(0, 2999), st.integers(-limit, limit), max_size=9)
        )
        indices = np.array(list(drawn), dtype=np.int64)
        for cells in (ours, theirs):
            cells.put(indices, Integers.of(drawn.values(), wide=bits == 96))
        assert ours.at(indices).same(theirs.at(indices))
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, 5000)] * 2)))
        assert ours.entries(start, stop).same(theirs.entries(start, stop))


def test_entries_of_large_arrays_are_looked_through_in_parts(storages: Storages) -> None:
    spec = ArraySpec("a", 200_000, 32)
    cells = storages(3)(spec)
    places = np.array([0, 65_535, 65_536, 199_999])
    cells.put(places, Integers.of([1, 2, 3, 4]))
    assert cells.entries(0, 300_000).to_dict() == dict(
        zip(places.tolist(), [1, 2, 3, 4], strict=True)
    )
    assert cells.entries(1, 65_536).to_dict() == {65_535: 2}


@pytest.mark.parametrize("make", [pagerank, tikhonov])
@pytest.mark.parametrize("policy", [ThetaLru, partial(BudgetedThetaLru, theta=1.0)])
def test_paged_learners_keep_the_contract(
    make: Any, policy: Callable[[int], Policy], storages: Storages
) -> None:
    subject = SUBJECTS[make().name]
    on_pages = dataclasses.replace(subject, make=lambda: make(storage=storages(1, policy)))
    check_learner(on_pages, interleavings=2)


def _histories(users: int, items: int) -> Any:
    return np.random.default_rng(3).random((users, items)) < 0.2


def _rounds(model: Any, examples: list[tuple[Any, ...]], new_round: Callable[[], None]) -> None:
    for number, batch in enumerate(examples):
        new_round()
        model.learn(*batch)
        if number:
            model.forget(*(part[:2] for part in examples[number - 1]))


@every_policy
def test_pagerank_on_few_pages_is_pagerank_in_memory(
    policy: Callable[[int], Policy], storages: Storages
) -> None:
    histories = _histories(24, 150).astype(np.int64)
    batches = [(histories[start : start + 4],) for start in range(0, 24, 4)]
    storage = storages(3, policy)
    order = np.arange(150)[::-1]
    ours, theirs = PersonalizedPageRank(150, order, storage=storage), PersonalizedPageRank(150)
    _rounds(ours, batches, storage.new_round)
    _rounds(theirs, batches, lambda: None)
    assert storage.pages == 12
    assert storage.resident <= 3
    assert storage.swaps.ins + storage.swaps.past > 12
    assert ours.digest() == theirs.digest() == ours.statistics.digest()
    for item in (0, 70):
        assert ours.similar(item, 5)[0].tolist() == theirs.similar(item, 5)[0].tolist()
    ours.check()


@every_policy
@pytest.mark.parametrize("fraction_bits", [12, 30])  # 64 and 96 bits
def test_tikhonov_on_few_pages_is_tikhonov_in_memory(
    policy: Callable[[int], Policy], fraction_bits: int, storages: Storages
) -> None:
    rng = np.random.default_rng(4)
    X, y = rng.uniform(-1, 1, (12, 60)), rng.uniform(-1, 1, 12)
    batches = [(X[start : start + 3], y[start : start + 3]) for start in range(0, 12, 3)]
    storage = storages(2, policy)
    ours = Tikhonov(60, fraction_bits=fraction_bits, storage=storage)
    theirs = Tikhonov(60, fraction_bits=fraction_bits)
    _rounds(ours, batches, storage.new_round)
    _rounds(theirs, batches, lambda: None)
    assert storage.pages > 3
    assert storage.resident <= 2
    assert ours.digest() == theirs.digest()
    assert ours.statistics == theirs.statistics
    assert np.array_equal(ours.weights, theirs.weights)


def test_pagerank_on_movielens_is_bit_identical(
    load_real: Callable[[str], Examples], storages: Storages
) -> None:
    X: Any = load_real("movielens").features
    storage = storages(138, partial(ThetaLru, theta=0.3))
    ours, theirs = (
        PersonalizedPageRank(X.shape[1], storage=storage),
        PersonalizedPageRank(X.shape[1]),
    )
    for model in (ours, theirs):
        for start in range(0, X.shape[0], 200):
            model.learn(X[start : start + 200])
        shortest = int(np.argmin(np.diff(X.indptr)))  # each rare item costs a row of pages
        model.forget(X[shortest : shortest + 1])
    assert storage.pages > 1300
    assert storage.resident <= 138
    assert ours.digest() == theirs.digest()
    assert ours.statistics == theirs.statistics


def test_a_learner_needs_a_folder_of_its_own(tmp_path: Path) -> None:
    with paged(tmp_path / "new" / "folder", frames=2) as storage:
        PersonalizedPageRank(5, storage=storage)
        with pytest.raises(BadInput, match=r"items\.pages already exists"):
            PersonalizedPageRank(5, storage=storage)
    with pytest.raises(BadInput, match="delete the file if no learner uses it"):
        PersonalizedPageRank(5, storage=paged(str(tmp_path / "new" / "folder"), frames=2))


def test_a_storage_that_is_left_has_written_all_and_holds_nothing(tmp_path: Path) -> None:
    with paged(tmp_path, frames=1000) as storage:
        cells = storage(ArraySpec("counts", 3000, 64))
        cells.put(np.array([5, 2999]), Integers.of([0xABCDEF, 1]))
        assert storage.resident == 2
    assert storage.resident == storage.pages == 0
    assert (0xABCDEF).to_bytes(8, "little") in (tmp_path / "counts.pages").read_bytes()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be created: Not a directory"):
        State(Schema("a", {}, (ArraySpec("a", 3),)), paged(tmp_path / "file" / "x", 1))


def test_forgotten_counts_are_in_no_file_after_a_flush(tmp_path: Path) -> None:
    with paged(tmp_path, frames=2) as storage:
        model = PersonalizedPageRank(200, storage=storage)
        histories = _histories(5, 200).astype(np.int64)
        model.learn(histories)
        storage.flush()
        model.forget(histories)
        storage.flush()
        assert model.statistics.is_zero
        for path in tmp_path.glob("*.pages"):
            pages = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 4096)
            assert not pages[:, :-8].any()
