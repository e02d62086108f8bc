"""What a setting may be: whole numbers, numbers, and lists of them, as TOML writes them."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

__all__ = ["Number", "Numbers", "Whole", "Wholes"]


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from `least` to `most`.

    >>> Whole(1).read(7), Whole(1).read(0), Whole(1).read(True)
    (7, None, None)
    """

    least: int = 0
    most: int = 2**63 - 1  # what TOML can write

    def read(self, value: object) -> int | None:
        """Return the number, or None if it is not one of these."""
        if not isinstance(value, Integral) or isinstance(value, bool):
            return None
        number = int(value)
        return number if self.least <= number <= self.most else None

    def __str__(self) -> str:
        return f"a whole number from {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class Number:
    """A number from `least` to `most`.

    >>> Number(0.0).read(2), Number(0.0).read(float("nan")), Number(0.0).read("2")
    (2.0, None, None)
    """

    least: float = -1e200  # so that no range, nor a multiple of it, overflows
    most: float = 1e200

    def read(self, value: object) -> float | None:
        """Return the number, or None if it is not one of these."""
        if not isinstance(value, Real) or isinstance(value, bool):
            return None
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if self.least <= number <= self.most else None

    def __str__(self) -> str:
        return f"a number from {self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class Wholes:
    """A list of whole numbers.

    >>> Wholes().read([3, 32, 32]), Wholes().read([]), Wholes().read(3)
    ((3, 32, 32), None, None)
    """

    each: Whole = Whole()

    def read(self, value: object) -> tuple[int, ...] | None:
        """Return the numbers, or None if it is not such a list."""
        return _read_each(self.each, value)

    def __str__(self) -> str:
        return f"a list, each {self.each}"


@dataclass(frozen=True, slots=True)
class Numbers:
    """One number for all columns, or a list with one for each.

    >>> Numbers().read(1), Numbers().read([1, 2.5])
    (1.0, (1.0, 2.5))
    """

    each: Number = Number()

    def read(self, value: object) -> float | tuple[float, ...] | None:
        """Return the number or numbers, or None if it is neither."""
        return self.each.read(value) if isinstance(value, Real) else _read_each(self.each, value)

    def __str__(self) -> str:
        return f"{self.each}, or a list with one for each column"


def _read_each(kind: Whole | Number, value: object) -> tuple[Any, ...] | None:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return None
    each = tuple(kind.read(one) for one in value)
    return None if not each or None in each else each
