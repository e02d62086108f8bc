"""Checks of real numbers before they are put on a grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput

__all__ = ["Floats", "not_finite", "per_column", "require_finite"]

Floats = NDArray[np.float64]


def require_finite(values: Floats, first_row: int = 0) -> None:
    """Check that every value of a block of rows is a finite number.

    Parameters
    ----------
    values : ndarray of float64
        Rows by columns.
    first_row : int, default 0
        Row number of the block in the whole input, for error messages.

    Raises
    ------
    BadInput
        A value is infinite or not a number; the message names the first one.
    """
    infinite = ~np.isfinite(values)
    if np.any(infinite):
        row, column = np.argwhere(infinite)[0]
        raise not_finite(first_row + row, column, values[row, column], "feature")


def not_finite(row: int, column: int, value: float, what: str) -> BadInput:
    """Return the error for a value that is not a finite number."""
    return BadInput(f"row {row}, {what} {column} is {value}; it must be a finite number")


def per_column(value: float | ArrayLike, columns: int, what: str) -> Floats:
    """Return one finite number per column, from a number or one per column."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biufO":
            raise TypeError(given.dtype)  # noqa: TRY301
        numbers = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{what} is {value!r}; give a number, or one per column") from None
    if numbers.shape not in ((), (columns,)):
        raise BadInput(f"{what} has shape {numbers.shape}; give one number, or {columns} numbers")
    if not np.all(np.isfinite(numbers)):
        raise BadInput(f"{what} is {value!r}; it must be finite")
    return np.broadcast_to(numbers, (columns,)).copy()
