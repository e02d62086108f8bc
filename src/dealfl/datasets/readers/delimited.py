"""Text tables of numbers: read fast, and looked at again slowly to say what is wrong."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dealfl.datasets.readers.content import Content
from dealfl.errors import BadInput

__all__ = ["Columns"]


@dataclass(frozen=True, slots=True)
class Columns:
    """How a text table is laid out: its delimiter, its width, what to skip and what to keep.

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
        """Return the kept columns of every row; BadInput names file, line and value."""
        body = content.data.split(b"\n", self.skip_lines)[-1]
        if content.data.count(b"\n") < self.skip_lines or not body.strip():
            raise BadInput(f"{content.name}: holds no rows; expected {self.width} columns")
        try:
            table = self._parse(body)
        except ValueError as error:
            raise self._diagnosis(content, str(error)) from error
        if not np.isfinite(table).all():
            raise self._diagnosis(content, "a number that is not finite")
        return table

    def line_of(self, content: Content, row: int) -> int:
        """Return the line number, from 1, on which a row of the table stands."""
        after = (number for number, _ in content.lines() if number > self.skip_lines)
        return next(number for index, number in enumerate(after) if index == row)

    def _parse(self, body: bytes) -> NDArray[Any]:
        text = io.StringIO(body.decode("utf-8-sig", "replace"))
        table = np.loadtxt(
            text, self.dtype, comments=None, delimiter=self.delimiter, usecols=self.keep, ndmin=2
        )
        # numpy does not mind a short line whose kept columns are there
        if body.count(self.delimiter.encode()) != len(table) * (self.width - 1):
            raise ValueError(f"a line without {self.width} columns")
        return table

    def _diagnosis(self, content: Content, otherwise: str) -> BadInput:
        for number, line in content.lines():
            complaint = self._complaint(line) if number > self.skip_lines else None
            if complaint:
                return BadInput(f"{content.name}, line {number}: {complaint}")
        return BadInput(f"{content.name}: not a table of {self.width} columns ({otherwise})")

    def _complaint(self, line: str) -> str | None:
        fields = line.split(self.delimiter)
        if len(fields) != self.width:
            return f"{len(fields)} columns in {line[:60]!r}, expected {self.width}"
        for column in self.keep or range(self.width):
            if not _is_value(fields[column], np.dtype(self.dtype)):
                kind = np.dtype(self.dtype).name
                return f"{fields[column]!r} in column {column + 1} is not a finite {kind}"
        return None


def _is_value(text: str, dtype: np.dtype[Any]) -> bool:
    try:
        if dtype.kind == "f":
            return bool(np.isfinite(float(text)))
        limits = np.iinfo(dtype)
        return int(limits.min) <= int(text) <= int(limits.max)
    except ValueError:
        return False
