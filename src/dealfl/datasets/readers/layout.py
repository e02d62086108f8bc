"""The layout of a table in delimited text, and the numbers in its cells."""

import math
import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = ["Encoding", "Layout", "read_number"]

Encoding = Annotated[
    Literal["utf-8", "utf-16", "windows-1252"], Meta(description="text encoding of the file")
]


_GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?([eE][+-]?\d+)?")


class Layout(Struct, frozen=True, kw_only=True):
    """The layout of a table in delimited text.

    Parameters
    ----------
    delimiter : str, default ","
        Character between two cells.
    decimal_comma : bool, default False
        Whether numbers are written like 1.234,5.
    header : bool, default True
        Whether the first row names the columns.
    skip_lines : int, default 0
        Lines at the start of the file that are not part of the table.
    encoding : {"utf-8", "utf-16", "windows-1252"}, default "utf-8"
        Text encoding of the file.
    """

    delimiter: Annotated[
        str, Meta(min_length=1, max_length=1, description="character between two cells")
    ] = ","
    decimal_comma: Annotated[bool, Meta(description="numbers are written 1.234,5")] = False
    header: Annotated[
        bool, Meta(description="the first row names the columns; otherwise they are c1, c2, …")
    ] = True
    skip_lines: Annotated[
        int,
        Meta(ge=0, description="lines at the start of the file that are not part of the table"),
    ] = 0
    encoding: Encoding = "utf-8"

    def read_number(self, cell: str) -> float:
        """Return the number in a cell.

        Parameters
        ----------
        cell : str
            Text of the cell.

        Returns
        -------
        float
            The number; nan if the cell does not hold one.

        Examples
        --------
        >>> layout = Layout(decimal_comma=True)
        >>> layout.read_number("1.234,5"), layout.read_number("31.12.2024")
        (1234.5, nan)
        """
        if not self.decimal_comma:
            return read_number(cell)
        if "." in cell and not _GROUPED.fullmatch(cell.strip()):
            return math.nan  # 31.12.2024 is a date
        return read_number(cell.replace(".", "").replace(",", "."))


def read_number(cell: str) -> float:
    """Return the number in a cell with a decimal point.

    Parameters
    ----------
    cell : str
        Text of the cell.

    Returns
    -------
    float
        The number; nan if the cell does not hold one.

    Examples
    --------
    >>> read_number(" 2.5 "), read_number("1_000"), read_number("ten")
    (2.5, nan, nan)
    """
    try:
        return float(cell) if "_" not in cell else math.nan
    except ValueError:
        return math.nan
