"""Data in memory, read by a [source] like a file with the same content."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dealfl.data.readers import Block, Content, DelimitedText, Layout, read_number
from dealfl.errors import BadInput
from dealfl.learners import column_array, frame_columns, is_absent, is_frame

if TYPE_CHECKING:
    from scipy import sparse

_BLOCK_ROWS = 8192
_MAX_DIGITS = 4_300  # of an integer that Python writes
_PLAIN = Layout()
_COUNTED = itertools.count()


class MemoryTable:
    """Named columns of numbers or texts, in memory.

    Examples
    --------
    >>> table = MemoryTable("houses.csv", {"rooms": [3.0, 4.0], "city": ["Ulm", None]})
    >>> table.text()
    'rooms,city\\n3.0,Ulm\\n4.0,\\n'
    """

    def __init__(
        self, name: str, columns: Mapping[str, Any], *, parses_texts: bool = False
    ) -> None:
        self.name = name
        self.key = f"{name} in memory {next(_COUNTED)}"
        self._parses_texts = parses_texts
        self._columns = {key: _plain(values) for key, values in columns.items()}
        self._truths = [key for key, values in columns.items() if np.asarray(values).dtype == bool]
        self.rows = max(map(len, self._columns.values()), default=0)
        for key, column in self._columns.items():
            if len(column) != self.rows:
                raise BadInput(f"{key!r} has {len(column)} values for {self.rows} rows")

    def __str__(self) -> str:
        return self.name

    def with_column(self, name: str, values: Any) -> MemoryTable:  # noqa: ANN401
        """Return the table with other values in a column."""
        columns = {**self._columns, name: values}
        return MemoryTable(self.name, columns, parses_texts=self._parses_texts)

    def read_names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._columns)

    def holds_truths(self, name: str) -> bool:
        """Return whether a column was given as True and False, which are held as 1 and 0."""
        return name in self._truths

    def read_blocks(self, width: int) -> Iterator[Block]:  # noqa: ARG002 - as text is read
        """Yield all rows, 8192 at a time."""
        for first in range(0, self.rows, _BLOCK_ROWS):
            stop = min(first + _BLOCK_ROWS, self.rows)
            columns = [column[first:stop] for column in self._columns.values()]
            yield _MemoryBlock(columns, list(range(first, stop)), self._parses_texts)

    def text(self) -> str:
        """Return the table as CSV; numbers are written so that they are read back exactly."""
        out = io.StringIO(newline=None)  # every end of a line becomes \n, as when it is read
        writer = csv.writer(out, lineterminator="\r\n")  # cells with either are quoted
        writer.writerow(self._columns)
        writer.writerows(zip(*(_texts(column) for column in self._columns.values()), strict=True))
        return out.getvalue()


class MemoryRows:
    """Sparse rows of features with one label each, in memory."""

    def __init__(self, name: str, matrix: sparse.csr_array, labels: Any) -> None:  # noqa: ANN401
        self.name, self.key = name, f"{name} in memory {next(_COUNTED)}"
        self.matrix: sparse.csr_array = matrix.astype(np.float64)
        self.labels = MemoryTable(name, {"label": labels})
        if self.labels.rows != self.matrix.shape[0]:
            raise BadInput(f"y has {self.labels.rows} values for {self.matrix.shape[0]} rows")

    def __str__(self) -> str:
        return self.name

    def holds_truths(self, name: str) -> bool:  # noqa: ARG002 - there is one column
        """Return whether the labels were given as True and False."""
        return self.labels.holds_truths("label")

    @cached_property
    def label_texts(self) -> list[str]:
        """The labels as a file would hold them."""
        return [text for block in self.labels.read_blocks(1) for text in block.texts(0)]

    def text(self) -> str:
        """Return the rows as LIBSVM text; BadInput if a label has a space in it."""
        lines = []
        for row, label in enumerate(self.label_texts):
            if len(label.split()) != 1:
                raise BadInput(f"row {row}: LIBSVM cannot hold the label {label!r}; rename it")
            start, stop = self.matrix.indptr[row : row + 2]
            order = np.argsort(self.matrix.indices[start:stop])
            pairs = zip(
                self.matrix.indices[start:stop][order].tolist(),
                self.matrix.data[start:stop][order].tolist(),
                strict=True,
            )
            lines.append(" ".join([label, *(f"{index + 1}:{value!r}" for index, value in pairs)]))
        return "\n".join(lines) + "\n"


Table = DelimitedText | MemoryTable
TableData = Path | Content | Table
"""A table: a file, its content, or columns in memory."""


def open_table(data: TableData, layout: Layout) -> Table:
    """Return the reader of a table; the layout is that of a file."""
    return DelimitedText(data, layout) if isinstance(data, Path | Content) else data


def feature_columns(X: object) -> dict[str, NDArray[Any]]:
    """Return the columns of an array, of nested lists or of a frame; those of an array are x1, x2 …

    >>> list(feature_columns([[1, 2], [3, 4]]))
    ['x1', 'x2']
    """
    if is_frame(X):
        return dict(frame_columns(X))
    try:
        matrix = np.asarray(X)
        if matrix.dtype.kind == "U" and not isinstance(X, np.ndarray):
            matrix = np.array(X, dtype=object)  # numbers beside texts stay numbers
    except ValueError:
        raise BadInput("X has rows of different lengths; pass a table") from None
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise BadInput(f"X has shape {matrix.shape}; pass a table, one row an example")
    return {f"x{n + 1}": column_array(matrix[:, n]) for n in range(matrix.shape[1])}


def owner_names(values: Any) -> NDArray[Any]:  # noqa: ANN401
    """Return owners in memory as a file would name them; None where one is missing.

    A whole number has one name, whatever holds it: a missing value turns a column of integers into
    one of floats.

    Examples
    --------
    >>> owner_names([1, 2.0, None, True, b"ann"]).tolist()
    ['1', '2', None, 'True', 'ann']
    """
    given = values[values.columns[0]] if is_frame(values) and len(values.columns) == 1 else values
    if isinstance(getattr(given, "dtype", None), np.dtype):
        array = np.asarray(given)
    else:  # a list, or a series whose missing values make no floats
        is_one = isinstance(given, str | bytes) or not isinstance(given, Iterable)
        array = np.array([given] if is_one else list(given), dtype=object)
    if array.dtype.kind != "O":
        distinct, places = np.unique(array.ravel(), return_inverse=True)
        return owner_names(list(distinct))[places].reshape(array.shape)
    names = np.empty(array.shape, dtype=object)
    names.flat[:] = [_owner_name(cell) for cell in array.flat]
    return names


def _owner_name(value: Any) -> str | None:  # noqa: ANN401
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]")
    if isinstance(value, np.generic):
        value = value.item()
    if is_absent(value):
        return None
    try:
        text = value.decode() if isinstance(value, bytes) else _text_of(value)
        text.encode()
    except UnicodeError:
        raise BadInput(f"the owner {value!r} is no Unicode text; rename it") from None
    except ValueError:
        raise BadInput(
            f"an owner is a number of more than {_MAX_DIGITS:,} digits; rename it"
        ) from None
    return text


def _text_of(value: object) -> str:
    if isinstance(value, Decimal) and value.adjusted() >= _MAX_DIGITS:
        return str(value)  # its digits could fill the memory
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        return str(int(value))
    text = str(value)
    return text.removesuffix(" 00:00:00") if isinstance(value, datetime) else text


class _MemoryBlock(Block):
    """Rows in memory; `lines` are row numbers that begin with 0."""

    unit = "row"

    def __init__(self, columns: list[NDArray[Any]], lines: list[int], parses_texts: bool) -> None:
        super().__init__(_PLAIN, len(columns), lines, [])
        self._arrays = columns
        self._parses_texts = parses_texts

    def texts(self, column: int) -> list[str]:
        """Return the cells of a column as texts."""
        return _texts(self._arrays[column])

    def numbers(self, column: int) -> NDArray[np.float64]:
        """Return the numbers of a column; nan for texts, unless the table parses them."""
        values = self._arrays[column]
        if values.dtype.kind != "O":
            return values.astype(np.float64)
        if not self._parses_texts:
            return np.full(len(values), math.nan)
        return np.array([read_number(text) for text in self.texts(column)], dtype=np.float64)


def _plain(values: Any) -> NDArray[Any]:  # noqa: ANN401
    """Return a column as an array of int64, of float64, or of texts and None."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise BadInput(f"a column has shape {array.shape}; it must be a vector")
    if array.dtype.kind == "M":
        return np.where(np.isnat(array), "", np.datetime_as_string(array, unit="s")).astype(object)
    if array.dtype.kind in "bu" or (array.dtype.kind == "i" and array.dtype != np.int64):
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind == "i":
        return array
    texts = np.empty(len(array), dtype=object)
    texts[:] = [None if is_absent(value) else str(value) for value in array.tolist()]
    return texts


def _texts(values: NDArray[Any]) -> list[str]:
    if values.dtype.kind == "O":
        return ["" if value is None else value for value in values.tolist()]
    if values.dtype.kind == "f":
        return ["" if value != value else repr(value) for value in values.tolist()]
    return list(map(str, values.tolist()))
