"""Real numbers on a fixed grid: the step from floats to exact integers.

A feature with bound b is multiplied by 2^(fraction_bits − ⌈log2 b⌉) and rounded half to even. The
multiplication is exact, so the same value gives the same integer on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput, OutOfBounds
from dealfl.exact.statistics import Setting

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Indices = NDArray[np.integer[Any]]
Locate = Callable[[Int64s], tuple[int, int]]  # from a position in an array to its row and column

_WHATS = ("feature", "target")
_SMALLEST_BOUND = 2.0**-200  # below it, scales or their squares overflow


def require_finite(values: Floats, first_row: int = 0) -> None:
    """Raise `BadInput` if a value of a block of rows is infinite or not a number."""
    infinite = ~np.isfinite(values)
    if np.any(infinite):
        row, column = np.argwhere(infinite)[0]
        raise _not_finite(first_row + row, column, values[row, column], "feature")


def _not_finite(row: int, column: int, value: float, what: str) -> BadInput:
    """Return the error for a value that is not a finite number."""
    rule = f"{what} {column} is not a finite number"
    return BadInput(f"row {row}, {what} {column} is {value}; it must be a finite number", rule)


def _per_column(value: float | ArrayLike, columns: int, what: str) -> Floats:
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


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """A grid of integers for each of several columns.

    Parameters
    ----------
    bound
        Largest magnitude of each column.
    offset
        What is subtracted from each column.
    exponent
        Power of two that the values of each column are multiplied by.
    fraction_bits
        Bits of an integer of the largest magnitude.
    signed
        Whether values may be negative.
    what
        What a column is, in error messages.

    Examples
    --------
    >>> grid = FixedPoint.of(2, bound=[1.0, 16.0], fraction_bits=8)
    >>> grid.quantise(np.array([[0.5, 4.0]])).tolist()
    [[128, 64]]
    """

    bound: Floats
    offset: Floats
    exponent: Int64s
    fraction_bits: int
    signed: bool
    what: str

    @classmethod
    def of(
        cls,
        columns: int,
        bound: float | ArrayLike,
        fraction_bits: int,
        *,
        offset: float | ArrayLike = 0.0,
        signed: bool = True,
        shared: bool = False,
        what: str = "feature",
    ) -> FixedPoint:
        """Create the grid of some columns.

        Parameters
        ----------
        columns
            Number of columns.
        bound
            Largest magnitude, of all columns or of each.
        fraction_bits
            Bits of an integer of the largest magnitude.
        offset
            What is subtracted, of all columns or of each.
        signed
            Whether values may be negative.
        shared
            Whether all columns have the scale of the largest bound.
        what
            What a column is, in error messages.

        Returns
        -------
        FixedPoint
            The grid.
        """
        bounds = _per_column(bound, columns, f"{what}_bound")
        offsets = _per_column(offset, columns, "offset")
        usable = (bounds >= _SMALLEST_BOUND) & (bounds <= 1 / _SMALLEST_BOUND)
        if not np.all(usable):
            worst = repr(float(bounds[~usable][0]))
            raise BadInput(f"{what}_bound is {worst}; it must lie between 2^-200 and 2^200")
        mantissas, exponents = np.frexp(bounds)
        exponents = exponents.astype(np.int64) - (mantissas == 0.5)  # the smallest e, bound ≤ 2^e
        if shared:
            exponents[:] = exponents.max(initial=np.iinfo(np.int64).min)
        return cls(bounds, offsets + 0.0, exponents, fraction_bits, signed, what)

    @cached_property
    def scale(self) -> Floats:
        """Grid points per unit of each column, a power of two."""
        return np.ldexp(1.0, (self.fraction_bits - self.exponent).astype(np.int32))

    @cached_property
    def _alike(self) -> tuple[Floats, Floats]:
        """Bound and scale; one number each, which is faster, if they are the same everywhere."""
        many = not self.bound.size or bool((self.bound != self.bound[0]).any())
        return (self.bound, self.scale) if many else (self.bound[:1], self.scale[:1])

    def settings(self, *, clip: bool = False) -> dict[str, Setting]:
        """Return the settings that determine the integers: exponents, fraction bits and offsets.

        Parameters
        ----------
        clip
            Whether values beyond the bounds are clipped.

        Returns
        -------
        dict[str, Setting]
            Settings for a schema.
        """
        shape: dict[str, Setting] = {
            f"{self.what}_exponent": _compact(self.exponent.tolist()),
            "fraction_bits": self.fraction_bits,
        }
        if np.any(self.offset):
            shape[f"{self.what}_offset".removeprefix("feature_")] = _compact(self.offset.tolist())
        if clip:
            shape["clip"] = True
            if np.any(self.bound != np.ldexp(1.0, self.exponent.astype(np.int32))):
                shape[f"{self.what}_bound"] = _compact(self.bound.tolist())
        return shape

    @property
    def limits(self) -> Int64s:
        """The largest integer of each column."""
        return np.rint(self.bound * self.scale).astype(np.int64)

    def quantise(self, values: Floats, first_row: int = 0, *, clip: bool = False) -> Int64s:
        """Return the integers of a block of dense rows.

        Parameters
        ----------
        values
            Rows of values.
        first_row
            Number of the first row, in error messages.
        clip
            Whether values beyond the bounds are clipped; else they are an error.

        Returns
        -------
        Int64s
            One integer for each value.
        """
        return self.rounded(values, first_row, clip=clip).astype(np.int64)

    def rounded(self, values: Floats, first_row: int, *, clip: bool = False) -> Floats:
        """Return the same integers as `quantise`, as floats.

        Parameters
        ----------
        values
            Rows of values.
        first_row
            Number of the first row, in error messages.
        clip
            Whether values beyond the bounds are clipped; else they are an error.

        Returns
        -------
        Floats
            One integer for each value.
        """
        return self._points(values, slice(None), lambda cell: (first_row + cell[0], cell[1]), clip)

    def quantise_stored(
        self, values: Floats, columns: Indices, row_starts: Indices, *, clip: bool = False
    ) -> Int64s:
        """Return the integers of the stored values of a CSR matrix.

        Parameters
        ----------
        values
            Stored values.
        columns
            The column of each value.
        row_starts
            Where each row begins.
        clip
            Whether values beyond the bounds are clipped; else they are an error.

        Returns
        -------
        Int64s
            One integer for each value.
        """

        def locate(cell: Int64s) -> tuple[int, int]:
            row = int(np.searchsorted(row_starts, cell[0], side="right")) - 1
            return row, int(columns[cell[0]])

        return self._points(values, columns, locate, clip).astype(np.int64)

    def _points(
        self, values: Floats, columns: slice | Indices, locate: Locate, clip: bool
    ) -> Floats:
        (bound, scale), centred = self._alike, values
        if len(bound) > 1:
            bound, scale = bound[columns], scale[columns]
        if np.count_nonzero(self.offset):
            with np.errstate(over="ignore", invalid="ignore"):  # out of bounds: reported below
                centred = values - self.offset[columns]
        low = -bound if self.signed else 0.0
        inside = (centred >= low) & (centred <= bound)
        if not inside.all():
            for cell in np.argwhere(~np.isfinite(values))[:1]:
                raise _not_finite(*locate(cell), values[tuple(cell)], self.what)
            if not clip:
                cell = np.argwhere(~inside)[0]
                raise self._out_of_bounds(*locate(cell), float(values[tuple(cell)]))
            centred = np.clip(centred, low, bound)
        return np.rint(centred * scale)

    def _out_of_bounds(self, row: int, column: int, value: float) -> OutOfBounds:
        offset, bound = self.offset[column], self.bound[column]
        outside = f"outside [{offset - bound * self.signed:g}, {offset + bound:g}]"
        return OutOfBounds(
            f"row {row}, {self.what} {column} is {value!r}, {outside}; "
            f"declare a larger {self.what}_bound or another offset, or pass clip=True",
            rule=f"{self.what} {column} is {outside}",
        )


def bounds_from(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Replace exponents in the settings of a grid by the widest bounds, if no bound is given.

    Examples
    --------
    >>> bounds_from(FixedPoint.of(2, [1.0, 90.0], 8).settings())
    {'fraction_bits': 8, 'feature_bound': [1.0, 128.0]}
    """
    bounds: dict[str, Any] = dict(settings)
    for what in _WHATS:
        exponent = bounds.pop(f"{what}_exponent", None)
        if exponent is not None:
            bounds.setdefault(f"{what}_bound", np.ldexp(1.0, exponent).tolist())
    return bounds


def _compact(values: Sequence[int | float]) -> Setting:
    return values[0] if values and all(value == values[0] for value in values) else list(values)
