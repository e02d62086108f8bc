"""Delimited text, read in blocks of rows, so that files can be larger than memory."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dealfl.datasets.readers.content import Content, open_text
from dealfl.datasets.readers.layout import Layout, require_rows
from dealfl.errors import BadInput

__all__ = ["BLOCK_CHARACTERS", "Block", "DelimitedText"]

BLOCK_CHARACTERS = 1 << 20
_PLAIN = Layout()


class Block:
    """Some rows of a table, by column; rows of another width are separate.

    Parameters
    ----------
    layout : Layout
        Layout of the table.
    width : int
        Number of cells of a row.
    lines : list of int
        Line on which each row ends.
    rows : list of str or list of list of str
        The rows: texts if there are no quotation marks, otherwise cells.
    ragged : sequence of (int, list of str), optional
        Rows of another width: the line on which each ends, and its cells.
    """

    unit = "line"  # what `lines` count

    def __init__(
        self,
        layout: Layout,
        width: int,
        lines: list[int],
        rows: list[str] | list[list[str]],
        ragged: Sequence[tuple[int, list[str]]] = (),
    ) -> None:
        self.layout, self.width, self.lines, self.ragged = layout, width, lines, ragged
        self._rows: Any = rows

    def __len__(self) -> int:
        return len(self.lines) + len(self.ragged)

    def texts(self, column: int) -> list[str]:
        """Return the cells of a column.

        Parameters
        ----------
        column : int
            Index of the column, from 0.

        Returns
        -------
        list of str
            One text per row.
        """
        cells: list[str] = self._columns[column].tolist()
        return cells

    def numbers(self, column: int) -> NDArray[np.float64]:
        """Return the numbers of a column.

        Parameters
        ----------
        column : int
            Index of the column, from 0.

        Returns
        -------
        ndarray of float64
            One number per row; nan where a cell does not hold one.
        """
        if self._floats is not None:
            return self._floats[:, column].copy()
        texts = self.texts(column)
        if not self.layout.decimal_comma and "_" not in "".join(texts):
            try:
                return np.asarray(self._columns[column], dtype=np.float64)
            except ValueError:
                pass  # some cell is not a number: parse each distinct cell
        known = {text: self.layout.read_number(text) for text in set(texts)}
        return np.array([known[text] for text in texts], dtype=np.float64)

    def table(self, columns: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
        """Return some columns as numbers of one type.

        Parameters
        ----------
        columns : sequence of int
            Indices of the columns, from 0.
        dtype : dtype
            Type of the numbers.

        Returns
        -------
        ndarray
            Rows by columns.

        Raises
        ------
        ValueError
            A cell does not hold a number of this type.
        """
        if self.lines and isinstance(self._rows[0], str):
            return self._parse(columns, dtype)
        return np.asarray(self._columns[list(columns)].T, dtype=dtype)

    @cached_property
    def _floats(self) -> NDArray[np.float64] | None:
        """All cells, if each is a number that numpy reads as Python does; without their texts."""
        if self.layout.decimal_comma or not self.lines or not isinstance(self._rows[0], str):
            return None
        with suppress(ValueError):
            return self._parse(None, np.float64)
        return None

    @cached_property
    def _columns(self) -> NDArray[Any]:
        if self.lines and isinstance(self._rows[0], str):
            return self._parse(None, object).T
        return np.array(self._rows, dtype=object).reshape(-1, self.width).T

    def _parse(self, columns: Sequence[int] | None, dtype: DTypeLike) -> NDArray[Any]:
        delimiter = self.layout.delimiter
        table: NDArray[Any] = np.loadtxt(
            self._rows, dtype, comments=None, delimiter=delimiter, usecols=columns, ndmin=2
        )
        return table


@dataclass(frozen=True, slots=True)
class DelimitedText:
    """A table of delimited text, in a file or in memory.

    Parameters
    ----------
    source : Path or Content
        Where the text is.
    layout : Layout, optional
        Layout of the text; by default comma-separated with a header.

    Examples
    --------
    >>> table = DelimitedText(Content("tiny.csv", b"a,b\\n1,2\\n3\\n5,x"))
    >>> (block,) = table.read_blocks(width=2)
    >>> block.numbers(0).tolist(), block.texts(1), block.ragged
    ([1.0, 5.0], ['2', 'x'], [(3, ['3'])])
    """

    source: Path | Content
    layout: Layout = _PLAIN

    def read_names(self) -> list[str]:
        """Return the names of the columns.

        Returns
        -------
        list of str
            Names in the header; c1, c2, … where there are none.

        Raises
        ------
        BadInput
            Two columns have the same name, or the file is empty.
        """
        first = self.read_first()
        if not self.layout.header:
            return [f"c{place}" for place in range(1, len(first) + 1)]
        names = [cell.strip() or f"c{place}" for place, cell in enumerate(first, 1)]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise BadInput(
                    f"{self.source}: columns {names.index(name) + 1} and {place + 1} are both "
                    f"named {name!r}; rename one of them in the first row"
                )
        return names

    def read_first(self) -> list[str]:
        """Return the cells of the first row, whether it is a header or not.

        Returns
        -------
        list of str
            The cells.

        Raises
        ------
        BadInput
            The file is empty, or of another format.
        """
        require_rows(self.source)
        with open_text(self.source, self.layout.encoding) as text:
            for _, row in self._read_rows(text, self._skip(text)):
                return row
        raise BadInput(f"{self.source} is empty; it has no row")

    def read_blocks(self, width: int) -> Iterator[Block]:
        """Read all rows after the header; blank rows are skipped.

        Parameters
        ----------
        width : int
            Number of cells of a row.

        Yields
        ------
        Block
            Some rows.
        """
        delimiter = self.layout.delimiter
        with open_text(self.source, self.layout.encoding) as text:
            line = self._skip(text)
            if self.layout.header:
                line, _ = next(self._read_rows(text, line), (line, []))
            while part := text.readlines(BLOCK_CHARACTERS):
                # csv merges several spaces, and a quoted cell can end on another line
                if delimiter == " " or '"' in "".join(part):
                    block, line = self._quoted(part, text, line, width)
                else:
                    block, line = self._plain(part, line, width), line + len(part)
                if len(block):
                    yield block

    def _skip(self, text: TextIO) -> int:
        for _ in range(self.layout.skip_lines):
            text.readline()
        return self.layout.skip_lines

    def _read_rows(self, text: Iterable[str], line: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the line on which each row ends, and its cells; `line` lines precede them."""
        reader = csv.reader(text, delimiter=self.layout.delimiter, skipinitialspace=True)
        try:
            for row in reader:
                if row and (len(row) > 1 or row[0].strip()):
                    yield line + reader.line_num, row
        except csv.Error as error:
            raise BadInput(
                f"{self.source}, line {line + reader.line_num}: {error}; "
                "is a quotation mark left open?"
            ) from error

    def _quoted(self, part: list[str], rest: TextIO, line: int, width: int) -> tuple[Block, int]:
        """Return the rows that start in `part`, and the line on which the last one ends."""
        lines: list[int] = []
        rows: list[list[str]] = []
        ragged: list[tuple[int, list[str]]] = []
        end = line + len(part)
        for last, row in self._read_rows(chain(part, rest), line):
            if len(row) == width:
                lines.append(last)
                rows.append(row)
            else:
                ragged.append((last, row))
            if last >= end:
                end = last
                break
        return Block(self.layout, width, lines, rows, ragged), end

    def _plain(self, part: list[str], line: int, width: int) -> Block:
        delimiter = self.layout.delimiter
        counts = [text.count(delimiter) for text in part]
        lines = list(range(line + 1, line + 1 + len(part)))
        if width > 1 and counts.count(width - 1) == len(part):
            return Block(self.layout, width, lines, part)
        rows = [
            (number, text, count + 1)
            for number, text, count in zip(lines, part, counts, strict=True)
            if count or text.strip()
        ]
        good = [(number, text) for number, text, cells in rows if cells == width]
        ragged = [
            (number, text.rstrip("\r\n").split(delimiter))
            for number, text, cells in rows
            if cells != width
        ]
        return Block(self.layout, width, [n for n, _ in good], [text for _, text in good], ragged)
