"""Real numbers on a fixed grid: where floats end and exact integers begin.

A feature with bound b is multiplied by 2^(fraction_bits − ⌈log2 b⌉) and rounded half to even. The
multiplication is exact, so the same value gives the same integer on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput, OutOfBounds
from dealfl.schema import Setting

__all__ = ["FixedPoint", "bounds_from", "exponents_of", "require_finite"]

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Places = NDArray[np.integer[Any]]
Locate = Callable[[Int64s], tuple[int, int]]  # from a place in an array to its row and column

_WHATS = ("feature", "target")
_SMALLEST_BOUND = 2.0**-200  # beyond it scales and their squares leave the range of floats


def exponents_of(bounds: Floats) -> Int64s:
    """Return for each bound the smallest e with bound ≤ 2^e.

    >>> exponents_of(np.array([1.0, 16.0, 17.0, 0.3])).tolist()
    [0, 4, 5, -1]
    """
    mantissas, exponents = np.frexp(bounds)
    powers: Int64s = exponents - (mantissas == 0.5).astype(np.int64)
    return powers


@dataclass(frozen=True, slots=True, eq=False)
class FixedPoint:
    """A grid for each of several columns: bounds, offsets and resolution are settings.

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
        """Return the grid of `columns` columns; `shared` gives all of them the widest one's."""
        bounds = _per_column(bound, columns, f"{what}_bound")
        offsets = _per_column(offset, columns, "offset")
        usable = (bounds >= _SMALLEST_BOUND) & (bounds <= 1 / _SMALLEST_BOUND)
        if not np.all(usable):
            worst = float(bounds[~usable][0])
            raise BadInput(f"{what}_bound must be above zero and of sane size, not {worst!r}")
        exponents = exponents_of(bounds)
        if shared:
            exponents[:] = exponents.max(initial=np.iinfo(np.int64).min)
        return cls(bounds, offsets + 0.0, exponents, fraction_bits, signed, what)

    @property
    def scale(self) -> Floats:
        """Grid points per unit of each column: a power of two."""
        return np.ldexp(1.0, (self.fraction_bits - self.exponent).astype(np.int32))

    def settings(self) -> dict[str, Setting]:
        """Return what of the grid shapes statistics: not the bounds, only the resolution."""
        shape: dict[str, Setting] = {
            f"{self.what}_exponent": _compact(self.exponent.tolist()),
            "fraction_bits": self.fraction_bits,
        }
        if np.any(self.offset):
            shape["offset"] = _compact(self.offset.tolist())
        return shape

    @property
    def limits(self) -> Int64s:
        """The largest integer of each column."""
        return np.rint(self.bound * self.scale).astype(np.int64)

    def quantise(self, values: Floats, first_row: int = 0, *, clip: bool = False) -> Int64s:
        """Return integers for a block of rows; `first_row` is its place in the whole input."""
        return self._points(
            values, slice(None), lambda place: (first_row + place[0], place[1]), clip
        )

    def quantise_stored(
        self, values: Floats, columns: Places, row_starts: Places, *, clip: bool = False
    ) -> Int64s:
        """Return integers for the stored values of a csr; without offsets zeros stay zeros."""

        def locate(place: Int64s) -> tuple[int, int]:
            row = int(np.searchsorted(row_starts, place[0], side="right")) - 1
            return row, int(columns[place[0]])

        return self._points(values, columns, locate, clip)

    def _points(
        self, values: Floats, columns: slice | Places, locate: Locate, clip: bool
    ) -> Int64s:
        bound = self.bound[columns]
        with np.errstate(over="ignore", invalid="ignore"):  # then it is out of bounds, told below
            centred = values - self.offset[columns]
        low = -bound if self.signed else np.zeros_like(bound)
        outside = ~((centred >= low) & (centred <= bound))
        if np.any(outside):
            infinite = ~np.isfinite(values)
            if np.any(infinite):
                place = np.argwhere(infinite)[0]
                raise _not_finite(*locate(place), values[tuple(place)], self.what)
            if not clip:
                place = np.argwhere(outside)[0]
                raise self._out_of_bounds(*locate(place), float(values[tuple(place)]))
            centred = np.clip(centred, low, bound)
        return np.rint(centred * self.scale[columns]).astype(np.int64)

    def _out_of_bounds(self, row: int, column: int, value: float) -> OutOfBounds:
        offset, bound = self.offset[column], self.bound[column]
        low = offset - bound if self.signed else offset
        return OutOfBounds(
            f"row {row}, {self.what} {column} is {value!r}, outside [{low:g}, {offset + bound:g}]; "
            f"declare a larger {self.what}_bound (or another offset), or pass clip=True"
        )


def bounds_from(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return settings with the widest bounds of a grid in place of its exponents.

    >>> bounds_from(FixedPoint.of(2, [1.0, 90.0], 8).settings())
    {'fraction_bits': 8, 'feature_bound': [1.0, 128.0]}
    """
    found: dict[str, Any] = dict(settings)
    for what in _WHATS:
        exponent = found.pop(f"{what}_exponent", None)
        if exponent is not None:
            found[f"{what}_bound"] = np.ldexp(1.0, exponent).tolist()
    return found


def require_finite(values: Floats, first_row: int = 0) -> None:
    """Raise `BadInput` naming the first value of a block of rows that is not a finite number."""
    infinite = ~np.isfinite(values)
    if np.any(infinite):
        row, column = np.argwhere(infinite)[0]
        raise _not_finite(first_row + row, column, values[row, column], "feature")


def _not_finite(row: int, column: int, value: float, what: str) -> BadInput:
    return BadInput(f"row {row}, {what} {column} is {value}; only finite numbers can be used")


def _per_column(value: float | ArrayLike, columns: int, what: str) -> Floats:
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biufO":
            raise TypeError(given.dtype)  # noqa: TRY301
        numbers = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{what} must be a number or one per column, not {value!r}") from None
    if numbers.shape not in ((), (columns,)):
        raise BadInput(f"{what} has shape {numbers.shape}; give one number, or {columns} of them")
    if not np.all(np.isfinite(numbers)):
        raise BadInput(f"{what} must be finite, not {value!r}")
    return np.broadcast_to(numbers, (columns,)).copy()


def _compact(values: Sequence[int | float]) -> Setting:
    return values[0] if values and all(value == values[0] for value in values) else list(values)
