"""Histories: learners whose examples are sets of items, their records, and how they are checked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter, index
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.exact import Statistics, Work
from dealfl.features import checked_csr
from dealfl.learners.base import Learner, Undo
from dealfl.learners.inputs import as_array, is_sparse
from dealfl.learners.records import Change, Record, StoredRecord

if TYPE_CHECKING:
    from scipy import sparse

Int64s = NDArray[np.int64]
Ranked = tuple[Int64s, NDArray[np.float64]]  # items, the best first, and their scores
Replaced = tuple[set[int], set[int], set[int]]  # items of an owner that stay, are new, are gone

_OWNER, _BODY = attrgetter("owner"), attrgetter("body")
_FLOATS, _ONE = np.dtype(np.float64), np.ones(1).tobytes()
_CSR = ("csr_array", "csr_matrix")
_INDICES = (np.dtype(np.int32), np.dtype(np.int64))
_SHORT = 1000  # items of a history
_decode_item = msgspec.msgpack.Decoder(int).decode


class HeldRecords(Sequence[StoredRecord]):
    """Records as bodies by owner, so that reading many of them makes few objects.

    Parameters
    ----------
    bodies : mapping of bytes to sequence of bytes
        Encoded contents by the hash of the owner.

    Examples
    --------
    >>> list(HeldRecords({b"ann": [b"1", b"2"]}))[1]
    StoredRecord(owner=b'ann', body=b'2')
    """

    def __init__(self, bodies: Mapping[bytes, Sequence[bytes]]) -> None:
        self.bodies = bodies

    @classmethod
    def of(cls, records: Sequence[Record]) -> HeldRecords:
        """Return the same records by owner.

        Parameters
        ----------
        records : sequence of Record
            Records of any owners.

        Returns
        -------
        HeldRecords
            The records.
        """
        if isinstance(records, HeldRecords):
            return records
        bodies: dict[bytes, list[bytes]] = {}
        for owner, group in groupby(records, _OWNER):
            bodies.setdefault(owner, []).extend(map(_BODY, group))
        return cls(bodies)

    def __len__(self) -> int:
        return sum(map(len, self.bodies.values()))

    def __iter__(self) -> Iterator[StoredRecord]:
        for owner, bodies in self.bodies.items():
            yield from (StoredRecord(owner, body) for body in bodies)

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401 - an index or a slice
        return list(self)[key]


class Histories:
    """Encoding of records that hold one item; all items of an owner are one history.

    Examples
    --------
    >>> Histories.decode(Histories.encode(17))
    17
    """

    @staticmethod
    def encode(item: int) -> bytes:
        """Return the body of a record.

        Parameters
        ----------
        item : int
            Item number.

        Returns
        -------
        bytes
            The body.
        """
        return msgspec.msgpack.encode(int(item))

    @staticmethod
    def decode(body: bytes) -> int:
        """Return the content of a body.

        Parameters
        ----------
        body : bytes
            Result of `encode`.

        Returns
        -------
        int
            Item number.
        """
        return _decode_item(body)

    @staticmethod
    def by_owner(records: Sequence[Record]) -> dict[bytes, set[int]]:
        """Return the items of each owner.

        Parameters
        ----------
        records : sequence of Record
            Records of items.

        Returns
        -------
        dict of bytes to set of int
            Items by the hash of the owner.
        """
        bodies = HeldRecords.of(records).bodies
        return {owner: set(map(_decode_item, some)) for owner, some in bodies.items()}


class HistoryLearner(Learner):
    """A learner whose examples are histories: sets of items, one per owner.

    Parameters
    ----------
    schema, storage
        See `Learner`.
    """

    whole_owners = True

    @property
    @abstractmethod
    def n_items(self) -> int:
        """The number of items."""

    @abstractmethod
    def learn(self, histories: object) -> Statistics:
        """Add histories.

        Parameters
        ----------
        histories : csr_array, array_like or list of list of int
            One row of 0 and 1, or one list of item numbers, per history.

        Returns
        -------
        Statistics
            The statistics that were added.

        Raises
        ------
        BadInput
            A history is not a set of items; nothing was changed.
        """

    @abstractmethod
    def forget(self, histories: object) -> Statistics:
        """Remove histories; the result is the same as if they had never been learned.

        Parameters
        ----------
        histories : csr_array, array_like or list of list of int
            One row of 0 and 1, or one list of item numbers, per history.

        Returns
        -------
        Statistics
            The (negative) statistics that were added.

        Raises
        ------
        NotLearned
            A history was never learned, as far as the statistics show it; nothing was changed.
        """

    @abstractmethod
    def recommend(self, history: object, k: int = 10) -> Ranked:
        """Return items that fit a history and are not in it.

        Parameters
        ----------
        history : array_like or csr_array
            Item numbers, or one row of 0 and 1.
        k : int, default 10
            Largest number of items.

        Returns
        -------
        items : ndarray of int64
            Item numbers, the best first.
        scores : ndarray of float64
            Their scores.
        """

    def score(self, histories: Sequence[Sequence[int]], k: int = 10) -> float:
        """Return the fraction of histories whose last item is recommended for the items before it.

        Parameters
        ----------
        histories : sequence of sequence of int
            Item numbers, the latest last.
        k : int, default 10
            Number of recommended items.

        Returns
        -------
        float
            A number in [0, 1].
        """
        sequences = _as_sequences(histories)
        before = [history[:-1] for history in sequences]
        with self._lock:
            hits = sum(self._find_hits(before, [history[-1] for history in sequences], k))
        return hits / len(sequences) if sequences else 0.0

    def _find_hits(
        self, histories: Sequence[Sequence[int]], wanted: Sequence[int], k: int
    ) -> Iterator[bool]:
        """Yield, for each history, whether an item is among the k that are recommended."""
        pairs = zip(histories, wanted, strict=True)
        return (item in self.recommend(history, k)[0] for history, item in pairs)

    def score_federated(self, histories: Sequence[Sequence[int]]) -> float:
        """Return the same as `score`: recommendations need statistics only.

        Parameters
        ----------
        histories : sequence of sequence of int
            Item numbers, the latest last.

        Returns
        -------
        float
            A number in [0, 1].
        """
        return self.score(histories)

    def score_records(
        self, records: Sequence[Record], known: Sequence[Record] = ()
    ) -> float | None:
        """Return the fraction of items that are recommended for the known items of their owners."""
        hidden, seen = Histories.by_owner(records), Histories.by_owner(known)
        hits = total = 0
        work = Work(0, 0)
        for owner, items in hidden.items():
            if history := sorted(seen.get(owner, set()) - items):
                hits += len(items.intersection(self.recommend(history)[0].tolist()))
                total += len(items)
                work += self.last_work
        self._work = work
        return hits / total if total else None

    def pack(self, records: Sequence[Record]) -> list[bytes]:
        """Check records; they hold integers already."""
        items = [Histories.decode(record.body) for record in records]
        require_items(np.array(items, dtype=np.int64), self.n_items)
        return [record.body for record in records]

    @abstractmethod
    def _replaced(self, owners: Sequence[Replaced]) -> Change:
        """Return the change of the statistics if histories of owners are replaced."""

    def difference(
        self, learn: Sequence[Record], forget: Sequence[Record], kept: Sequence[Record] = ()
    ) -> Change:
        """Compute what replacing histories would add; the learner does not change.

        An item that is learned and forgotten again costs nothing.
        """
        parts = [Histories.by_owner(records) for records in (kept, learn, forget)]
        nothing: set[int] = set()
        owners = []
        for owner in parts[2] | parts[1]:
            stay, new, old = (part.get(owner, nothing) for part in parts)
            owners.append((stay | (new & old), new - old - stay, old - new - stay))
        return self._replaced(owners)

    def update_records(
        self, learn: Sequence[Record], forget: Sequence[Record], kept: Sequence[Record] = ()
    ) -> Change:
        """Replace histories in one pass; on any error nothing changes."""
        change = self.difference(learn, forget, kept)
        return self._atomically(self._replace, change)

    def _replace(self, change: Change, undo: Undo) -> Change:
        self._apply(change.delta, undo, forgetting=False)  # records are known to be learned
        self._follow_delta(change.delta)
        self._work = change.work
        return change

    @abstractmethod
    def _follow_delta(self, delta: Statistics) -> None:
        """Update what is derived from the statistics after a delta was applied."""

    @classmethod
    def records_of(cls, histories: NDArray[Any] | sparse.csr_array) -> Sequence[Record]:
        """Convert each item to a record; each history has its own owner.

        Parameters
        ----------
        histories : ndarray or csr_array
            One row of 0 and 1 per history.

        Returns
        -------
        sequence of Record
            One record per item.
        """
        owners, items = (indices.tolist() for indices in histories.nonzero())
        pairs = zip(owners, items, strict=True)
        return [StoredRecord(b"%d" % owner, Histories.encode(item)) for owner, item in pairs]


class Batch(NamedTuple):
    """Histories one after the other: where each starts, and their ascending items."""

    starts: Int64s
    items: Int64s

    @property
    def pair_count(self) -> int:
        """The number of pairs of all histories."""
        if len(self.starts) == 2:
            return len(self.items) * (len(self.items) - 1) // 2
        lengths = np.diff(self.starts)
        return int(lengths @ (lengths - 1)) // 2


def as_batch(histories: object, items: int) -> Batch:
    """Return a copy of histories as arrays; whether a sparse row is a set is not checked yet."""
    table: Any = histories
    with suppress(AttributeError, TypeError):  # a damaged table, which is named below
        if type(table).__name__ in _CSR and is_sparse(table) and _is_table_of_ones(table, items):
            return Batch(table.indptr.astype(np.int64), table.indices.astype(np.int64))
    return as_histories(histories, items)


def _is_table_of_ones(matrix: Any, items: int) -> bool:  # noqa: ANN401
    starts, numbers, values = matrix.indptr, matrix.indices, matrix.data
    return (
        matrix.shape == (len(starts) - 1, items)
        and starts.item(0) == 0
        and len(values) == len(numbers) == starts.item(-1)
        and (len(starts) == 2 or bool((starts[1:] >= starts[:-1]).all()))
        and numbers.dtype.kind in "iu"
        and _are_ones(values)
    )


def _are_ones(values: NDArray[Any]) -> bool:
    if values.dtype is _FLOATS and len(values) < _SHORT:
        return values.tobytes() == _ONE * len(values)  # in a fifth of the time
    return bool(np.count_nonzero(values == 1) == len(values))


def as_histories(histories: object, items: int) -> Batch:
    """Return histories as arrays; raise `BadInput` if one is not a set of items."""
    if isinstance(histories, list | tuple) and all(map(_is_collection, histories)):
        return _from_lists(histories, items)
    if is_sparse(histories):
        return _from_sparse(histories, items)
    dense = as_array(histories, "histories")
    if dense.ndim != 2 or dense.dtype.kind not in "biuf":
        raise BadInput(
            "histories must be lists of item numbers, or a table of 0 and 1 with one row each"
        )
    _require_width(dense.shape, items)
    rows, numbers = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(len(dense) + 1))
    return _require_sets(starts, numbers, dense[rows, numbers])


def _from_sparse(histories: Any, items: int) -> Batch:  # noqa: ANN401
    numbers: Any = getattr(histories, "indices", None)
    if type(histories).__name__ in _CSR and getattr(numbers, "dtype", None) in _INDICES:
        require_items(numbers, items)
    matrix = checked_csr(histories, "histories")
    if np.any(matrix.data == 0):
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    _require_width(matrix.shape, items)
    require_items(matrix.indices, items)
    return _require_sets(matrix.indptr, matrix.indices, matrix.data)


def _require_width(shape: tuple[int, ...], items: int) -> None:
    if shape[1] != items:
        raise BadInput(f"histories have shape {shape}; the model has n_items={items}")


def _as_sequences(histories: Any) -> list[list[int]]:  # noqa: ANN401
    """Return lists of item numbers, of which none is empty."""
    wrong = "histories must be lists of item numbers, the latest last"
    if is_sparse(histories):  # scipy reads beyond arrays that do not fit each other
        raise BadInput(wrong)
    try:
        sequences = [list(map(index, history)) for history in histories]
    except (TypeError, ValueError, NotImplementedError):
        raise BadInput(wrong) from None
    if not all(sequences):
        raise BadInput("a history is empty, so it has no last item")
    return sequences


def _is_collection(row: object) -> bool:
    return isinstance(row, Collection) and not isinstance(row, str | bytes)


def _from_lists(histories: Sequence[Collection[Any]], items: int) -> Batch:
    """Return lists of item numbers, and rows of 0 and 1, as arrays."""
    try:
        numbers = [_numbers_of(list(row), items) for row in histories]
    except (TypeError, OverflowError):
        raise BadInput(f"an item is not a whole number; items are 0 .. {items - 1}") from None
    flat = np.concatenate([np.empty(0, np.int64), *numbers])
    require_items(flat, items)
    return _require_sets(np.cumsum([0, *map(len, numbers)]), flat, np.ones(len(flat)))


def _numbers_of(row: list[Any], items: int) -> NDArray[np.int64]:
    if items > 2 and len(row) == items and all(cell in (0, 1) for cell in row):
        return np.flatnonzero(row)  # as item numbers, some item would be in it twice
    return np.fromiter(map(index, row), np.int64, len(row))


def require_items(numbers: NDArray[np.integer], items: int) -> None:
    """Raise `BadInput` if a number is not an item."""
    wrong = np.flatnonzero((numbers < 0) | (numbers >= items))
    if len(wrong):
        rule = f"is out of range; items are 0 .. {items - 1}"
        raise BadInput(f"item {numbers[wrong[0]]} {rule}", f"an item {rule}")


def _require_sets(starts: NDArray[Any], numbers: NDArray[Any], values: NDArray[Any]) -> Batch:
    """Return sorted histories; raise `BadInput` if a row is not a set of items."""
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    wrong = np.flatnonzero(values != 1)
    if len(wrong):
        cell = wrong[0]
        raise BadInput(
            f"history {rows[cell]} has {values[cell]} for item {numbers[cell]}; "
            "a history is a set: give 1 for each of its items"
        )
    order = np.lexsort((numbers, rows))
    items, owners = numbers[order], rows[order]
    twice = np.flatnonzero((items[1:] == items[:-1]) & (owners[1:] == owners[:-1]))
    if len(twice):
        raise BadInput(f"history {owners[twice[0]]} has item {items[twice[0]]} twice")
    return Batch(starts.astype(np.int64), items.astype(np.int64))
