"""Readers of interactions between owners and items, and the histories built from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dealfl.data.readers.content import Content, read_lines
from dealfl.data.readers.supervised import Columns
from dealfl.errors import BadInput

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Events", "Histories", "Interactions", "RatingMatrix", "Ratings"]


@dataclass(frozen=True, slots=True, eq=False)
class Histories:
    """The items of each owner.

    Parameters
    ----------
    items : csr_array of int32
        One row per owner, one column per item; the value is 1.
    owners : ndarray of int64
        Owner of each row.
    times : ndarray of int64 or None
        Time of each interaction, parallel to `items.indices`.
    """

    items: "csr_array[np.int32, tuple[int, int]]"
    owners: NDArray[np.int64]
    times: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True, eq=False)
class Interactions:
    """Parallel arrays of owner, item, value and time, in the order of the file.

    Parameters
    ----------
    owners : ndarray of int64
        Owner of each interaction.
    items : ndarray of int64
        Item of each interaction, from 0.
    n_items : int
        Number of items.
    records : int
        Number of rows of the file.
    values : ndarray of float64, optional
        Rating of each interaction.
    times : ndarray of int64, optional
        Time of each interaction.

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
        """Return the history of each owner: the items rated `liked_from` or higher.

        An owner without such items has no row. If an owner met an item several times, the latest
        time counts.

        Parameters
        ----------
        liked_from : float, optional
            Smallest rating; by default all interactions count.

        Returns
        -------
        Histories
            One row per owner, in ascending order.

        Raises
        ------
        BadInput
            `liked_from` is given and there are no ratings.
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
            raise BadInput(f"liked_from is {liked_from}, but there are no ratings; omit it")
        return self.values >= liked_from


@dataclass(frozen=True, slots=True)
class Ratings:
    """Reader of lines of owner, item, rating and time; items are numbered from 1.

    Parameters
    ----------
    n_items : int
        Number of items.
    """

    n_items: int

    def __call__(self, contents: Sequence[Content]) -> Interactions:
        """Return the interactions of the one file given."""
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
    """Reader of one line per owner: the number of ratings, then a rating per item.

    Parameters
    ----------
    n_items : int
        Number of items.
    limit : float
        Largest magnitude of a rating.
    unrated : float, default 99.0
        Value of an item without a rating.
    """

    n_items: int
    limit: float
    unrated: float = 99.0

    def __call__(self, contents: Sequence[Content]) -> Interactions:
        """Return the ratings of the one file given; owners are row numbers from 0."""
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
    """Reader of a csv file with a header; items are numbered in ascending order.

    Parameters
    ----------
    n_items : int
        Number of distinct items of the file.
    owner : str, default "visitorid"
        Column of the owner.
    item : str, default "itemid"
        Column of the item.
    time : str, default "timestamp"
        Column of the time.
    """

    n_items: int
    owner: str = "visitorid"
    item: str = "itemid"
    time: str = "timestamp"

    def __call__(self, contents: Sequence[Content]) -> Interactions:
        """Return the events of the one file given; every kind of event counts."""
        (content,) = contents
        columns = self._columns(content)
        owners, ids, times = columns.read(content).T.copy()
        names, items = np.unique(ids, return_inverse=True)
        if len(names) != self.n_items:
            raise BadInput(
                f"{content.name} has {len(names)} distinct items, expected {self.n_items}; "
                "it is not the catalogued file"
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
