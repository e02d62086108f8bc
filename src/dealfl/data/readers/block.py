"""Some rows of a table, by column, and a fast reader for rows of plain decimals.

A decimal of at most 53 bits is exact as a float, and so is a power of ten up to 10**22. Their
quotient is therefore the float that is nearest to the number, as `float` returns it.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dealfl.data.readers.layout import Layout

__all__ = ["Block"]

Int64s = NDArray[np.int64]
Words = NDArray[np.uint64]

_MOST_DIGITS = 16
_TENS = 10 ** np.arange(_MOST_DIGITS + 1, dtype=np.int64)
_AHEAD = b"0" * _MOST_DIGITS  # so that two words fit before every place


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
            return _read_decimals(self._rows, self.layout.delimiter, self.width)
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


# -- plain decimals -----------------------------------------------------------------------------


def _read_decimals(rows: Sequence[str], delimiter: str, width: int) -> NDArray[np.float64]:
    """Return all cells; `ValueError` if some is no decimal of up to 16 digits, such as -12.5."""
    text = "".join(rows)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.endswith("\n"):
        text += "\n"
    data = np.frombuffer(_AHEAD + text.encode("ascii"), np.uint8)
    marks = np.flatnonzero((data == ord(delimiter)) | (data == ord("\n")) | (data == ord(".")))
    is_point = data[marks] == ord(".")
    places = np.flatnonzero(~is_point)
    ends = marks[places]
    lasts = np.flatnonzero(data[ends] == ord("\n"))
    if not np.array_equal(lasts, np.arange(width - 1, width * len(rows), width)):
        raise ValueError("there are rows of another width")
    starts = np.concatenate([[len(_AHEAD)], ends[:-1] + 1])
    negative = data[starts] == ord("-")
    middles = np.where(is_point[places - 1], marks[places - 1], ends)
    wholes, decimals = middles - starts - negative, ends - middles - is_point[places - 1]
    digits = wholes + decimals
    if digits.min() < 1 or digits.max() > _MOST_DIGITS:
        raise ValueError("there are empty cells or long numbers")
    words: Words = np.ndarray(len(data) - 7, "<u8", data, strides=(1,))
    factors = _TENS[decimals]
    values = _read_digits(words, middles, wholes) * factors + _read_digits(words, ends, decimals)
    if values.max() >> 53:
        raise ValueError("there are numbers that floats must round")
    floats: NDArray[np.float64] = values / factors * (1.0 - 2.0 * negative)
    return floats.reshape(-1, width)


def _read_digits(words: Words, ends: Int64s, lengths: Int64s) -> Int64s:
    """Return the integers that end before some places; eight digits are read as one word."""
    if not lengths.any():
        return lengths
    if lengths.max() > 8:
        high = _read_digits(words, ends - 8, np.maximum(lengths - 8, 0))
        return high * 10**8 + _read_digits(words, ends, np.minimum(lengths, 8))
    other = (64 - 8 * lengths).astype(np.uint64)  # bits of the characters before the digits
    word = (words[ends - 8] ^ 0x3030303030303030) >> other << other
    if ((word | word + 0x7676767676767676) & 0x8080808080808080).any():
        raise ValueError("there are characters other than digits")
    word = (word * 10 + (word >> 8)) & 0x00FF00FF00FF00FF
    word = (word * 100 + (word >> 16)) & 0x0000FFFF0000FFFF
    return ((word * 10_000 + (word >> 32)) & 0xFFFFFFFF).astype(np.int64)
