"""Files of who met what and when, and the histories made of them: one set of items an owner."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dealfl.datasets.readers.content import Content, read_lines
from dealfl.datasets.readers.supervised import Columns
from dealfl.errors import BadInput

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Events", "Histories", "Interactions", "RatingMatrix", "Ratings"]


@dataclass(frozen=True, slots=True, eq=False)
class Histories:
    """One row an owner: the items of its history; `times` stand beside `items.indices`."""

    items: "csr_array[np.int32, tuple[int, int]]"
    owners: NDArray[np.int64]
    times: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True, eq=False)
class Interactions:
    """Parallel arrays of owner, item, value and time, as they stood in the file.

    Examples
    --------
    >>> owner, item, stars = np.array([7, 7, 9]), np.array([0, 2, 2]), np.array([5, 1, 4])
    >>> liked = Interactions(owner, item, n_items=3, records=3, values=stars).histories(4)
    >>> liked.owners.tolist(), liked.items.toarray().tolist()
    ([7, 9], [[1, 0, 0], [0, 0, 1]])
    """

    owners: NDArray[np.int64]
    items: NDArray[np.int64]
    n_items: int
    records: int
    values: NDArray[np.float64] | None = None
    times: NDArray[np.int64] | None = None

    def histories(self, liked_from: float | None = None) -> Histories:
        """Return the items each owner valued at `liked_from` or more, all of them if None.

        An owner who is left without items has no history and is not among the rows. Of several
        meetings with one item the latest time counts.
        """
        from scipy.sparse import csr_array

        kept = self._kept(liked_from)
        owners, items = self.owners[kept], self.items[kept]
        times = np.zeros(len(items), np.int64) if self.times is None else self.times[kept]
        order = np.lexsort((times, items, owners))
        owners, items, times = owners[order], items[order], times[order]
        last = np.ones(len(items), bool)
        last[:-1] = (np.diff(owners) != 0) | (np.diff(items) != 0)
        names, sizes = np.unique(owners[last], return_counts=True)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        ones = np.ones(int(starts[-1]), np.int32)
        columns = items[last].astype(np.int32)
        matrix = csr_array((ones, columns, starts), (len(names), self.n_items))
        return Histories(matrix, names, None if self.times is None else times[last])

    def _kept(self, liked_from: float | None) -> NDArray[np.bool_]:
        if liked_from is None:
            return np.ones(len(self.items), bool)
        if self.values is None:
            raise BadInput(f"liked_from={liked_from}, but these interactions carry no ratings")
        return self.values >= liked_from


@dataclass(frozen=True, slots=True)
class Ratings:
    """Lines of owner, item, rating and time; items are numbered from 1."""

    n_items: int

    def __call__(self, contents: Sequence[Content]) -> Interactions:
        """Return the interactions in the one file given."""
        (content,) = contents
        columns = Columns(width=4, dtype=np.int64, delimiter="\t")
        owners, items, ratings, times = columns.read(content).T.copy()
        wrong = np.flatnonzero((items < 1) | (items > self.n_items))
        if wrong.size:
            line = columns.find_line(content, int(wrong[0]))
            raise BadInput(
                f"{content.name}, line {line}: item {items[wrong[0]]} is not in 1..{self.n_items}"
            )
        values = ratings.astype(np.float64)
        return Interactions(owners, items - 1, self.n_items, len(items), values, times)


@dataclass(frozen=True, slots=True)
class RatingMatrix:
    """One line an owner: how many items were rated, then a rating each, `unrated` if none."""

    n_items: int
    limit: float
    unrated: float = 99.0

    def __call__(self, contents: Sequence[Content]) -> Interactions:
        """Return the ratings in the one file given; owners are the row numbers from 0."""
        (content,) = contents
        columns = Columns(width=1 + self.n_items)
        table = columns.read(content)
        ratings = table[:, 1:]
        rated = ratings != self.unrated
        self._check(content, columns, table[:, 0] == rated.sum(axis=1), "the count of ratings")
        allowed = (np.abs(ratings) <= self.limit) | ~rated
        self._check(content, columns, allowed.all(axis=1), f"a rating beyond ±{self.limit}")
        owners, items = np.nonzero(rated)
        return Interactions(owners, items, self.n_items, len(table), ratings[rated])

    @staticmethod
    def _check(content: Content, columns: Columns, fine: NDArray[np.bool_], what: str) -> None:
        wrong = np.flatnonzero(~fine)
        if wrong.size:
            line = columns.find_line(content, int(wrong[0]))
            raise BadInput(f"{content.name}, line {line}: {what} is wrong")


@dataclass(frozen=True, slots=True)
class Events:
    """A csv file with a header; columns are the distinct items of the file in ascending order."""

    n_items: int
    owner: str = "visitorid"
    item: str = "itemid"
    time: str = "timestamp"

    def __call__(self, contents: Sequence[Content]) -> Interactions:
        """Return the events in the one file given; every kind of event counts."""
        (content,) = contents
        columns = self._columns(content)
        owners, ids, times = columns.read(content).T.copy()
        names, items = np.unique(ids, return_inverse=True)
        if len(names) != self.n_items:
            raise BadInput(
                f"{content.name}: {len(names)} distinct items, expected {self.n_items}; "
                "the file is not the one that was catalogued"
            )
        return Interactions(owners, items, self.n_items, len(items), times=times)

    def _columns(self, content: Content) -> Columns:
        _, header = next(read_lines(content), (1, ""))
        names = header.split(",")
        wanted = (self.owner, self.item, self.time)
        missing = [name for name in wanted if name not in names]
        if missing:
            raise BadInput(f"{content.name}, line 1: no column {missing[0]!r} in {header[:80]!r}")
        keep = tuple(names.index(name) for name in wanted)
        return Columns(len(names), np.int64, skip_lines=1, keep=keep)
