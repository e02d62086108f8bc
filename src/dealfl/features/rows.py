"""Checks of the input of a map, and iteration over blocks of rows, so that memory stays bounded."""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import BadInput, OutOfBounds
from dealfl.features.base import Matrix

__all__ = ["EXACT", "EXACT_32", "Bound", "blocks", "refuse_fractions", "refuse_outside", "table_of"]

EXACT = 2**53  # float64 holds every whole number up to here: sums are exact in any order
EXACT_32 = 2**24  # the same for float32
_Magnitude = Annotated[float, Meta(ge=0, le=EXACT)]
Bound = _Magnitude | Annotated[tuple[_Magnitude, ...], Meta(min_length=1)]
BLOCK_BYTES = 16 * 2**20
Limit = float | NDArray[np.float64]
Block = tuple[slice, NDArray[np.float64]]


def table_of(X: Matrix, n_inputs: int) -> Matrix:
    """Return X as an array or CSR matrix after a check of its shape and type.

    Examples
    --------
    >>> table_of([[1, 2, 3]], n_inputs=2)
    Traceback (most recent call last):
    dealfl.errors.BadInput: X has 3 columns; this map takes 2
    """
    rows = X.tocsr() if hasattr(X, "tocsr") else _as_array(X)
    if rows.ndim != 2:
        raise BadInput(f"X has shape {rows.shape}; it must have two dimensions, a row per example")
    if rows.shape[1] != n_inputs:
        raise BadInput(f"X has {rows.shape[1]} columns; this map takes {n_inputs}")
    if rows.dtype.kind not in "biuf":
        raise BadInput(f"X has dtype {rows.dtype}; it must hold real numbers")
    return rows


def blocks(X: Matrix, bytes_per_row: int) -> Iterator[Block]:
    """Yield blocks of rows of a checked X as finite, read-only float64."""
    n_rows, n_inputs = X.shape
    step = max(1, BLOCK_BYTES // (bytes_per_row + 16 * n_inputs))
    for first in range(0, n_rows, step):
        rows = slice(first, min(first + step, n_rows))
        part = X[rows]
        dense = part.toarray() if hasattr(part, "toarray") else part
        with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf: an error below
            block = dense.astype(np.float64, copy=False)
        _refuse_not_finite(block, first)
        yield rows, block


def refuse_outside(
    block: NDArray[np.float64], first: int, low: Limit, high: Limit, remedy: str
) -> None:
    """Raise `OutOfBounds` if a block, which starts at row `first` of X, exceeds low or high."""
    outside = (block < low) | (block > high)
    if outside.any():
        row, column = _first_true(outside)
        lowest = np.broadcast_to(low, block.shape)[row, column]
        highest = np.broadcast_to(high, block.shape)[row, column]
        raise OutOfBounds(
            f"X[{first + row}, {column}] is {block[row, column]}, "
            f"outside {lowest} .. {highest}; {remedy}"
        )


def refuse_fractions(block: NDArray[np.float64], first: int, remedy: str) -> None:
    """Raise `BadInput` if a block has a value that is not an integer."""
    fraction = block != np.rint(block)
    if fraction.any():
        row, column = _first_true(fraction)
        value = block[row, column]
        raise BadInput(f"X[{first + row}, {column}] is {value}, not a whole number; {remedy}")


def _refuse_not_finite(block: NDArray[np.float64], first: int) -> None:
    finite = np.isfinite(block)
    if not finite.all():
        row, column = _first_true(~finite)
        value = block[row, column]
        raise BadInput(f"X[{first + row}, {column}] is {value}; it must be a finite number")


def _first_true(mask: NDArray[np.bool_]) -> tuple[int, int]:
    row, column = np.unravel_index(np.argmax(mask), mask.shape)
    return int(row), int(column)


def _as_array(X: object) -> NDArray[Any]:
    try:
        return np.asarray(X)
    except ValueError as error:
        raise BadInput(f"X is not a table of numbers: {error}") from error
