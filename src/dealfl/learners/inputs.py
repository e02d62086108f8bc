"""Checks of what callers pass: matrices in blocks of rows, and targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dealfl.errors import BadInput
from dealfl.exact import FixedPoint
from dealfl.learners.frames import column_array, frame_matrix, is_frame
from dealfl.settings import As, Numbers

__all__ = [
    "Clip", "FeatureBound", "FractionBits", "Matrix", "Offset", "as_array", "as_matrix",
    "as_vector", "dense_blocks", "only_column", "quantised", "require_integer", "require_vector",
]  # fmt: skip

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Matrix = NDArray[Any] | sparse.csr_array

FeatureBound = Annotated[
    float | ArrayLike,
    As(Numbers),
    Meta(description="largest magnitude of a feature after the offset: a number, or one each"),
]
Offset = Annotated[
    float | ArrayLike,
    As(Numbers),
    Meta(description="number subtracted from a feature: a number, or one each"),
]
FractionBits = Annotated[
    int,
    Meta(ge=1, description="bits that features are rounded to; fewer give smaller updates"),
]
Clip = Annotated[
    bool, Meta(description="move values outside the bounds to the bounds instead of an error")
]

_NUMERIC = "biuf"
_BLOCK_ROWS = 2048


def require_integer(value: object, name: str, low: int, high: int) -> int:
    """Return a setting as an int, or raise `BadInput` with its name and limits.

    Examples
    --------
    >>> require_integer(0, "k", 1, 100)
    Traceback (most recent call last):
    dealfl.errors.BadInput: k is 0; it must be a whole number from 1 to 100
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not low <= int(value) <= high:  # type: ignore[call-overload]
        raise BadInput(f"{name} is {value!r}; it must be a whole number from {low} to {high}")
    return int(value)  # type: ignore[call-overload,no-any-return]


def as_matrix(X: object, columns: int) -> Matrix:
    """Return a table of numbers as an array or CSR matrix; the input is not changed.

    Parameters
    ----------
    X : array_like, csr_array or DataFrame
        One row per example.
    columns : int
        Expected number of columns.

    Returns
    -------
    ndarray or csr_array
        The table.

    Raises
    ------
    BadInput
        `X` is not a table of real numbers with this number of columns.
    """
    if type(X) is np.ndarray and X.shape[1:] == (columns,) and X.dtype == np.float64:
        return X
    is_sparse = not isinstance(X, np.ndarray) and sparse.issparse(X)
    matrix: Matrix = _as_csr(X) if is_sparse else as_array(X, "X")
    if matrix.dtype.kind not in _NUMERIC:
        raise BadInput(f"X holds {matrix.dtype} values; it must hold real numbers")
    if matrix.ndim != 2:
        raise BadInput(f"X has shape {matrix.shape}; it must be a table with a row per example")
    if matrix.shape[1] != columns:
        problem = f"X has {matrix.shape[1]} columns; the model has n_features={columns}"
        raise BadInput(problem, rule=problem)
    return matrix


def as_array(values: object, what: str) -> NDArray[Any]:
    """Return nested lists, an array, a series or a data frame as an array."""
    if isinstance(values, np.ndarray):
        return values
    if is_frame(values):
        return frame_matrix(values)
    try:
        return column_array(values)
    except ValueError:
        raise BadInput(f"{what} has rows of different lengths; pass a table") from None


def _as_csr(X: object) -> sparse.csr_array:
    matrix: sparse.csr_array = sparse.csr_array(X)  # type: ignore[call-overload]
    if matrix.ndim == 2 and not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def dense_blocks(X: Matrix, rows: int) -> Iterator[tuple[int, Floats]]:
    """Yield a table in dense blocks of rows.

    Parameters
    ----------
    X : ndarray or csr_array
        Table, for example a result of `as_matrix`.
    rows : int
        Largest number of rows of a block.

    Yields
    ------
    first : int
        Number of the first row of the block.
    block : ndarray of float64
        The rows.
    """
    for first in range(0, X.shape[0], rows):
        part = X[first : first + rows]
        dense = part.toarray() if sparse.issparse(part) else part
        yield first, np.asarray(dense, dtype=np.float64)


def as_vector(y: object, rows: int | None, what: str = "y") -> NDArray[Any]:
    """Return `y` as a vector of one value per row."""
    return require_vector(as_array(only_column(y), what), rows, what)


def require_vector(vector: NDArray[Any], rows: int | None, what: str) -> NDArray[Any]:
    """Return a vector, or raise `BadInput` if it has not one value per row."""
    count = vector.size if rows is None else rows
    if vector.shape != (count,):
        raise BadInput(f"{what} has shape {vector.shape}; {count} rows need shape ({count},)")
    return vector


def only_column(y: Any) -> Any:  # noqa: ANN401
    """Return the column of a data frame of one column, and anything else as it is."""
    if isinstance(y, np.ndarray) or not is_frame(y) or len(y.columns) != 1:
        return y
    return y[y.columns[0]]


def quantised(X: object, grid: FixedPoint, *, clip: bool) -> NDArray[np.int32]:
    """Return all rows of `X` on their grid, as 32-bit integers."""
    matrix = as_matrix(X, len(grid.bound))
    points = np.empty(matrix.shape, dtype=np.int32)
    for first, block in dense_blocks(matrix, _BLOCK_ROWS):
        points[first : first + len(block)] = grid.quantise(block, first, clip=clip)
    return points
