"""Delimited text, read in blocks of rows, so that files can be larger than memory."""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TextIO

from dealfl.data.readers.block import Block
from dealfl.data.readers.content import Content, open_text
from dealfl.data.readers.layout import Layout, require_rows
from dealfl.errors import BadInput

__all__ = ["BLOCK_CHARACTERS", "DelimitedText"]

BLOCK_CHARACTERS = 1 << 20
_PLAIN = Layout()


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
