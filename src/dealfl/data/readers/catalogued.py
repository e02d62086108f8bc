"""Readers of the files of the catalog: features and targets, images, and interactions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dealfl.data.examples import Examples, StoredHistories
from dealfl.data.readers.content import Content, read_lines
from dealfl.data.readers.delimited import Block, DelimitedText, Layout
from dealfl.data.readers.libsvm import SparseRows, read_finite, read_libsvm, read_pairs
from dealfl.errors import BadInput, needs_extra

if TYPE_CHECKING:
    from dealfl.data.examples import Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Features and targets of the same number of rows."""

    features: "Matrix"
    targets: NDArray[Any]
    test: "Table | None" = None

    @property
    def records(self) -> int:
        """The number of rows, including the test part."""
        return len(self.targets) + (self.test.records if self.test else 0)

    def split(self, at: int) -> "Table":
        """Split the rows into a training and a test part.

        Parameters
        ----------
        at
            Number of training rows.

        Returns
        -------
        Table
            The table with both parts.
        """
        test = Table(self.features[at:], self.targets[at:])
        return Table(self.features[:at], self.targets[:at], test)


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of numbers in delimited text of a fixed width; a bad row is an error.

    Examples
    --------
    >>> Columns(width=3, dtype=np.int16, keep=(0, 2)).read(Content("tiny.csv", b"1,a,3\\n4,b,6"))
    array([[1, 3],
           [4, 6]], dtype=int16)
    """

    width: int
    dtype: DTypeLike = np.float64
    delimiter: str = ","
    skip_lines: int = 0
    keep: tuple[int, ...] | None = None

    def read(self, content: Content) -> NDArray[Any]:
        """Return the kept columns of every row."""
        parts = [self._read_block(content, block) for block in self._read_blocks(content)]
        if not parts:
            raise BadInput(f"{content.name} has no rows; expected {self.width} columns")
        return np.concatenate(parts)

    def require(self, content: Content, fine: NDArray[np.bool_], problem: str) -> None:
        """Refuse the first row that is not fine, with its line."""
        if not fine.all():
            lines = chain.from_iterable(block.lines for block in self._read_blocks(content))
            line = next(islice(lines, int(fine.argmin()), None))
            raise BadInput(f"{content.name}, line {line}: {problem}")

    @property
    def _kept(self) -> Sequence[int]:
        return range(self.width) if self.keep is None else self.keep

    def _read_blocks(self, content: Content) -> Iterator[Block]:
        layout = Layout(delimiter=self.delimiter, header=False, skip_lines=self.skip_lines)
        return DelimitedText(content, layout).read_blocks(self.width)

    def _read_block(self, content: Content, block: Block) -> NDArray[Any]:
        if not block.ragged:
            try:
                table = block.table(self._kept, self.dtype)
            except ValueError:
                pass  # some cell is not a number: find the first
            else:
                if np.isfinite(table).all():
                    return table
        line, reason = min(self._find_errors(block))
        raise BadInput(f"{content.name}, line {line}: {reason}")

    def _find_errors(self, block: Block) -> Iterator[tuple[int, str]]:
        for line, cells in block.ragged:
            text = self.delimiter.join(cells)[:60]
            yield line, f"{len(cells)} columns in {text!r}, expected {self.width}"
        for column in self._kept:
            for line, cell in zip(block.lines, block.texts(column), strict=True):
                if not _is_value(cell, np.dtype(self.dtype)):
                    kind = np.dtype(self.dtype).name
                    yield line, f"{cell!r} in column {column + 1} is not a finite {kind}"
                    break


def _is_value(text: str, dtype: np.dtype[Any]) -> bool:
    try:
        if dtype.kind == "f":
            return bool(np.isfinite(float(text)))
        limits = np.iinfo(dtype)
        return int(limits.min) <= int(text) <= int(limits.max)
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class TargetColumn(Columns):
    """Reader of a delimited text file in which one column is the target.

    Examples
    --------
    >>> table = TargetColumn(width=3, target=0)([Content("tiny.csv", b"7,1,2\\n8,3,4")])
    >>> table.targets.tolist(), table.features.tolist()
    ([7.0, 8.0], [[1.0, 2.0], [3.0, 4.0]])
    """

    target: int = -1
    train_rows: int | None = None

    def __call__(self, contents: Sequence[Content]) -> Table:
        """Return the table of the one file given."""
        (content,) = contents
        values = self.read(content)
        table = Table(np.delete(values, self.target, axis=1), values[:, self.target].copy())
        return table if self.train_rows is None else table.split(self.train_rows)


@dataclass(frozen=True, slots=True)
class Libsvm:
    """Reader of LIBSVM text: a label, then index:value pairs with ascending indices from 1.

    Examples
    --------
    >>> table = Libsvm(n_features=3)([Content("tiny", b"1 1:0.5 3:2\\n2 2:1")])
    >>> table.targets.tolist(), table.features.tolist()
    ([1.0, 2.0], [[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]])
    """

    n_features: int
    labels: DTypeLike = np.float64

    def __call__(self, contents: Sequence[Content]) -> Table:
        """Return the table of the one file given."""
        (content,) = contents
        labels: list[float] = []
        rows = SparseRows(self.n_features)
        for line, words in chain.from_iterable(read_libsvm(content)):
            try:
                labels.append(read_finite(words[0]))
                rows.add(*read_pairs(words[1:], self.n_features))
            except ValueError as error:
                raise BadInput(f"{content.name}, line {line}: {error}") from None
        if not labels:
            raise BadInput(f"{content.name} has no rows; expected lines of LIBSVM text")
        return Table(rows.dense(), np.array(labels).astype(self.labels))


@dataclass(frozen=True, slots=True)
class Cifar:
    """Reader of the binary format of CIFAR: a label byte, then the red, green and blue planes.

    The last file is the test part, as in the published archive.
    """

    classes: int = 10
    pixels: int = 3 * 32 * 32

    def __call__(self, contents: Sequence[Content]) -> Table:
        """Return the images of all files but the last, with the last as test part."""
        *train, test = [self._rows(content) for content in contents]
        return self._table(train, self._table([test], None))

    @staticmethod
    def _table(parts: list[NDArray[np.uint8]], test: Table | None) -> Table:
        images = np.concatenate([rows[:, 1:] for rows in parts])
        return Table(images, np.concatenate([rows[:, 0] for rows in parts]), test)

    def _rows(self, content: Content) -> NDArray[np.uint8]:
        size = 1 + self.pixels
        count, rest = divmod(len(content.data), size)
        if rest or not count:
            raise BadInput(
                f"{content.name} has {len(content.data)} bytes, not a multiple of {size}; "
                "the file is truncated"
            )
        rows = np.frombuffer(content.data, np.uint8).reshape(count, size)
        wrong = np.flatnonzero(rows[:, 0] >= self.classes)
        if wrong.size:
            label = int(rows[wrong[0], 0])
            raise BadInput(
                f"{content.name}, row {wrong[0] + 1}: label {label} is not below {self.classes}"
            )
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class Interactions:
    """Parallel arrays of owner, item, value and time, in the order of the file.

    Examples
    --------
    >>> owner, item, stars = np.array([7, 7, 9]), np.array([0, 2, 2]), np.array([5, 1, 4])
    >>> liked = Interactions(owner, item, n_items=3, records=3, values=stars).histories(4)
    >>> liked.owners.tolist(), liked.histories.toarray().tolist()
    ([7, 9], [[1, 0, 0], [0, 0, 1]])
    """

    owners: NDArray[np.int64]
    items: NDArray[np.int64]
    n_items: int
    records: int
    values: NDArray[np.float64] | None = None
    times: NDArray[np.int64] | None = None

    def histories(
        self, liked_from: float | None = None, name: str = "", *, stored: bool = False
    ) -> Examples:
        """Return the history of each owner: the items rated `liked_from` or higher.

        An owner without such items has no row. If an owner met an item several times, the latest
        time counts. Histories that are only `stored` need no scipy.
        """
        kept = np.ones(len(self.items), bool)
        if liked_from is not None:
            assert self.values is not None, "only ratings have a threshold"
            kept = self.values >= liked_from
        owners, items = self.owners[kept], self.items[kept]
        times = np.zeros(len(items), np.int64) if self.times is None else self.times[kept]
        order = np.lexsort((times, items, owners))
        owners, items, times = owners[order], items[order], times[order]
        last = np.ones(len(items), bool)
        last[:-1] = (np.diff(owners) != 0) | (np.diff(items) != 0)
        names, sizes = np.unique(owners[last], return_counts=True)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        columns, shape = items[last].astype(np.int32), (len(names), self.n_items)
        met = None if self.times is None else times[last]
        if stored:
            plain: Any = StoredHistories(columns, starts, shape)
            return Examples(name, plain, owners=names, times=met)
        with needs_extra("scipy", "a table of histories"):
            from scipy.sparse import csr_array
        matrix = csr_array((np.ones(len(columns), np.int32), columns, starts), shape)
        return Examples(name, matrix, owners=names, times=met)


@dataclass(frozen=True, slots=True)
class Ratings:
    """Reader of lines of owner, item, rating and time; items are numbered from 1."""

    n_items: int

    def __call__(self, contents: Sequence[Content]) -> Interactions:
        """Return the interactions of the one file given."""
        (content,) = contents
        columns = Columns(width=4, dtype=np.int64, delimiter="\t")
        owners, items, ratings, times = columns.read(content).T.copy()
        fine = (items >= 1) & (items <= self.n_items)
        columns.require(content, fine, f"item {items[fine.argmin()]} is not in 1..{self.n_items}")
        values = ratings.astype(np.float64)
        return Interactions(owners, items - 1, self.n_items, len(items), values, times)


@dataclass(frozen=True, slots=True)
class RatingMatrix:
    """Reader of one line per owner: the number of ratings, then a rating per item."""

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
        counted = table[:, 0] == rated.sum(axis=1)
        columns.require(content, counted, "the count of ratings is wrong")
        allowed = (np.abs(ratings) <= self.limit) | ~rated
        problem = f"a rating beyond ±{self.limit} is wrong"
        columns.require(content, allowed.all(axis=1), problem)
        owners, items = np.nonzero(rated)
        return Interactions(owners, items, self.n_items, len(table), ratings[rated])


@dataclass(frozen=True, slots=True)
class Events:
    """Reader of a csv file with a header; items are numbered in ascending order."""

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
