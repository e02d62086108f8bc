"""Learners whose examples are histories: sets of items, and how they are checked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.errors import BadInput
from dealfl.exact import Statistics, Work
from dealfl.learners.base import Learner
from dealfl.learners.history_changes import Replaced
from dealfl.learners.history_records import Histories
from dealfl.learners.inputs import as_array
from dealfl.learners.pair_numbers import Batch, require_items, require_sets
from dealfl.learners.records import Change, Record, StoredRecord

__all__ = ["HistoryLearner", "as_batch", "as_histories"]

Ranked = tuple[NDArray[np.int64], NDArray[np.float64]]

_FLOATS, _ONE = np.dtype(np.float64), np.ones(1).tobytes()
_SHORT = 1000  # items of a history


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
        known, wanted = [one[:-1] for one in histories], [one[-1] for one in histories]
        hits = sum(self._find_hits(known, wanted, k))
        return hits / len(histories) if histories else 0.0

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
        self._state.commit(self._state.propose(change.delta))  # records are known to be learned
        with self._undoing(change.delta):
            self._follow_delta(change.delta)
        self._work = change.work
        return change

    @abstractmethod
    def _follow_delta(self, delta: Statistics) -> None:
        """Update what is derived from the statistics after a delta was applied."""

    @classmethod
    def records_of(cls, histories: sparse.csr_array) -> Sequence[Record]:
        """Convert each item to a record; each history has its own owner.

        Parameters
        ----------
        histories : csr_array
            One row of 0 and 1 per history.

        Returns
        -------
        sequence of Record
            One record per item.
        """
        owners, items = (places.tolist() for places in histories.nonzero())
        pairs = zip(owners, items, strict=True)
        return [StoredRecord(b"%d" % owner, Histories.encode(item)) for owner, item in pairs]


def as_batch(histories: object, items: int) -> Batch:
    """Return a copy of histories as arrays; whether a sparse row is a set is not checked yet."""
    matrix: Any = histories
    if not (
        type(matrix) in (sparse.csr_array, sparse.csr_matrix)
        and matrix.shape[1:] == (items,)
        and len(matrix.data) == len(matrix.indices) == matrix.indptr[-1]
        and _are_ones(matrix.data)
    ):
        matrix = as_histories(histories, items)
    return Batch(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))


def _are_ones(values: NDArray[Any]) -> bool:
    if values.dtype is _FLOATS and len(values) < _SHORT:
        return values.tobytes() == _ONE * len(values)  # in a fifth of the time
    return bool(np.count_nonzero(values == 1) == len(values))


def as_histories(histories: object, items: int) -> sparse.csr_array:
    """Return histories as a CSR matrix of ones; raise `BadInput` if one is not a set of items."""
    if isinstance(histories, list | tuple) and all(map(_is_collection, histories)):
        return _from_lists(histories, items)
    if not sparse.issparse(histories):
        dense = as_array(histories, "histories")
        if dense.ndim != 2 or dense.dtype.kind not in "biuf":
            raise BadInput(
                "histories must be lists of item numbers, or a table of 0 and 1 with one row each"
            )
        histories = dense
    matrix: sparse.csr_array = sparse.csr_array(histories)  # type: ignore[arg-type]
    if np.any(matrix.data == 0):
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    if matrix.ndim != 2 or matrix.shape[1] != items:
        raise BadInput(f"histories have shape {matrix.shape}; the model has n_items={items}")
    require_items(matrix.indices, items)
    require_sets(matrix)
    return matrix if matrix.has_sorted_indices else matrix.sorted_indices()


def _is_collection(row: object) -> bool:
    return isinstance(row, Collection) and not isinstance(row, str | bytes)


def _from_lists(histories: Sequence[Collection[Any]], items: int) -> sparse.csr_array:
    """Return lists of item numbers, and rows of 0 and 1, as a CSR matrix of ones."""
    try:
        numbers = [_numbers_of(list(row), items) for row in histories]
    except (TypeError, OverflowError):
        raise BadInput(f"an item is not a whole number; items are 0 .. {items - 1}") from None
    found = np.concatenate([np.empty(0, np.int64), *numbers])
    require_items(found, items)
    starts = np.cumsum([0, *map(len, numbers)])
    shape = (len(numbers), items)
    matrix: sparse.csr_array = sparse.csr_array((np.ones(len(found)), found, starts), shape=shape)
    require_sets(matrix)
    matrix.sort_indices()
    return matrix


def _numbers_of(row: list[Any], items: int) -> NDArray[np.int64]:
    if items > 2 and len(row) == items and all(cell in (0, 1) for cell in row):
        return np.flatnonzero(row)  # as item numbers, some item would be in it twice
    return np.fromiter(map(index, row), np.int64, len(row))
