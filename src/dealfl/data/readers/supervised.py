"""Readers of features and targets: delimited text, LIBSVM and the binary format of CIFAR."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dealfl.data.readers.block import Block
from dealfl.data.readers.content import Content
from dealfl.data.readers.delimited import DelimitedText
from dealfl.data.readers.layout import Layout
from dealfl.data.readers.libsvm import SparseRows, read_finite, read_libsvm, read_pairs
from dealfl.errors import BadInput

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Matrix = NDArray[Any] | csr_array[Any, tuple[int, int]]

__all__ = ["Cifar", "Columns", "Libsvm", "Table", "TargetColumn"]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Features and targets of the same number of rows.

    Parameters
    ----------
    features : ndarray or csr_array
        One row per example.
    targets : ndarray
        Target or class of each row.
    test : Table, optional
        Test part, if the publisher defines one.
    """

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
        at : int
            First row of the test part.

        Returns
        -------
        Table
            The rows before `at`, with the other rows as test part.
        """
        test = Table(self.features[at:], self.targets[at:])
        return Table(self.features[:at], self.targets[:at], test)


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of numbers in delimited text of a fixed width; a bad row is an error.

    Parameters
    ----------
    width : int
        Number of columns of the file.
    dtype : dtype, default float64
        Type of the numbers.
    delimiter : str, default ","
        Character between two cells.
    skip_lines : int, default 0
        Lines at the start of the file that are not part of the table.
    keep : tuple of int, optional
        Indices of the columns to read, from 0; by default all.

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
        """Return the kept columns of every row.

        Parameters
        ----------
        content : Content
            Unpacked text.

        Returns
        -------
        ndarray
            Rows by columns.

        Raises
        ------
        BadInput
            A row cannot be read; the message names file, line and value.
        """
        parts = [self._read_block(content, block) for block in self._read_blocks(content)]
        if not parts:
            raise BadInput(f"{content.name} has no rows; expected {self.width} columns")
        return np.concatenate(parts)

    def find_line(self, content: Content, row: int) -> int:
        """Return the line number of a row.

        Parameters
        ----------
        content : Content
            Unpacked text.
        row : int
            Index of the row, from 0.

        Returns
        -------
        int
            Line number, from 1.
        """
        lines = chain.from_iterable(block.lines for block in self._read_blocks(content))
        return next(islice(lines, row, None))

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
class TargetColumn:
    """Reader of a delimited text file in which one column is the target.

    Parameters
    ----------
    columns : Columns
        Columns of the file.
    target : int, default -1
        Index of the target among the kept columns; by default the last.
    train_rows : int, optional
        Number of training rows; the other rows are the test part.

    Examples
    --------
    >>> table = TargetColumn(Columns(width=3), target=0)([Content("tiny.csv", b"7,1,2\\n8,3,4")])
    >>> table.targets.tolist(), table.features.tolist()
    ([7.0, 8.0], [[1.0, 2.0], [3.0, 4.0]])
    """

    columns: Columns
    target: int = -1
    train_rows: int | None = None

    def __call__(self, contents: Sequence[Content]) -> Table:
        """Return the table of the one file given."""
        (content,) = contents
        values = self.columns.read(content)
        table = Table(np.delete(values, self.target, axis=1), values[:, self.target].copy())
        return table if self.train_rows is None else table.split(self.train_rows)


@dataclass(frozen=True, slots=True)
class Libsvm:
    """Reader of LIBSVM text: a label, then index:value pairs with ascending indices from 1.

    Parameters
    ----------
    n_features : int
        Number of features.
    labels : dtype, default float64
        Type of the labels.

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
        return Table(rows.matrix().toarray(), np.array(labels).astype(self.labels))


@dataclass(frozen=True, slots=True)
class Cifar:
    """Reader of the binary format of CIFAR: a label byte, then the red, green and blue planes.

    The last file is the test part, as in the published archive.

    Parameters
    ----------
    classes : int, default 10
        Number of classes.
    pixels : int, default 3072
        Bytes of an image.
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
