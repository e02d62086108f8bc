"""Bounds of features and targets, taken from the first rows, and what lies outside or between."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import min_max_axis  # type: ignore[import-untyped]

from dealfl.errors import OutOfBounds

Floats = NDArray[np.float64]
Matrix = NDArray[Any] | sparse.csr_array

_ROOM = 16  # costs 4 of the 30 bits of a feature
_WIDE_ROOM = 1 << 14  # leaves 16 of them
_SMALLEST = 2.0**-200  # of a bound
_MIN_STEPS = 1 << 10  # of a grid in the range of a feature


def is_auto(bound: object) -> bool:
    """Return whether a bound is to be taken from the data."""
    return bound is None or (isinstance(bound, str) and bound == "auto")


def range_of(X: Matrix) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value of each column."""
    if sparse.issparse(X):
        low, high = min_max_axis(X, axis=0)
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    return X.min(axis=0), X.max(axis=0)


def proposed_bound(largest: Floats, room: int = _ROOM) -> Floats:
    """Return `room` times the next power of two of each magnitude: for later, larger values.

    A feature that is always 0 gets the largest bound. Similar data get equal bounds.

    Examples
    --------
    >>> proposed_bound(np.array([0.0, 1.0, 90.0])).tolist()
    [2048.0, 16.0, 2048.0]
    """
    known = np.where(largest > 0, largest, np.max(largest) or 1.0)
    limited = np.minimum(np.maximum(known, _SMALLEST), 1 / _SMALLEST)
    exponents = np.ceil(np.log2(limited))
    return np.ldexp(float(room), exponents.astype(np.int32))


def shared_bound(largest: Floats) -> Floats:
    """Return one bound for all features, but a smaller one where its grid would be too coarse."""
    return np.minimum(proposed_bound(largest.max()), proposed_bound(largest, _WIDE_ROOM))


def centre_of(low: Floats, high: Floats) -> Floats:
    """Return the middle of each column on a coarse grid, so that similar data get equal ones."""
    step = proposed_bound((high - low) / 2) / 64
    return np.rint((low + high) / 2 / step) * step


def bound_and_offset(given: Any, X: Matrix, *, centred: bool) -> tuple[Any, Any]:  # noqa: ANN401
    """Return a given bound, or bounds of magnitudes; a column far from 0 can have an offset."""
    if not is_auto(given):
        return given, 0.0
    low, high = range_of(X)
    largest, half = np.maximum(np.abs(low), np.abs(high)), high / 2 - low / 2
    far = centred & (half > 0) & (half < largest / _WIDE_ROOM)
    step = proposed_bound(half)  # coarse, so that similar data get equal offsets
    offset = np.where(far, np.rint((low / 2 + high / 2) / step) * step, 0.0)
    return np.where(far, proposed_bound(half, _WIDE_ROOM), proposed_bound(largest)), offset


def out_of_bounds(
    what: str, value: float, bound: float, offset: float, setting: str
) -> OutOfBounds:
    """Return the error for a value outside its bound."""
    low, high = offset - bound, offset + bound
    return OutOfBounds(
        f"{what} has the value {value:.10g}, outside [{low:.10g}, {high:.10g}]; bounds "
        f"are fixed when the first rows are learned: fit again with a larger {setting}, or with "
        "clip=True to move such values to the bounds"
    )


def warn_if_coarse(
    X: Matrix, bound: Floats, bits: int, name_of: Callable[[int], str], setting: str
) -> None:
    """Warn of the first column whose grid loses the differences of its values."""
    low, high = range_of(X)
    spread, steps = high - low, np.ldexp(1.0, np.ceil(np.log2(bound)).astype(np.int32) - bits)
    for column in np.flatnonzero((spread > 0) & (spread < _MIN_STEPS * steps)).tolist():
        part, step = X[:, [column]], float(steps[column])
        values = part.toarray() if sparse.issparse(part) else part
        if np.abs(np.rint(values / step) * step - values).max() * _MIN_STEPS > spread[column]:
            varies = f"{name_of(column)} varies by {spread[column]:g} in the first rows"
            remedy = f"give a smaller {setting}, or subtract a constant from all values first"
            lost = f"{varies} and is rounded to multiples of {step:g}: differences are lost"
            warnings.warn(f"{lost}; {remedy}", UserWarning, stacklevel=5)
            return
