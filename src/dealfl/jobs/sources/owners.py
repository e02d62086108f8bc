"""Owners by name: a number that depends on nothing but the name, and the way back."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput

__all__ = ["OwnerNames"]

_BITS = 63


class OwnerNames:
    """Numbers for names, the same in every file and on every machine.

    >>> names = OwnerNames()
    >>> ann, bob, again = names.numbers(["ann", "bob", " ann"]).tolist()
    >>> ann == again, ann == bob, names[ann]
    (True, False, 'ann')
    """

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._name_of: dict[int, str] = {}

    def __getitem__(self, number: int) -> str:
        return self._name_of[number]

    def __len__(self) -> int:
        return len(self._name_of)

    def numbers(self, cells: list[str]) -> NDArray[np.int64]:
        """Return the number of each name."""
        return np.array([self._number(cell.strip()) for cell in cells], dtype=np.int64)

    def _number(self, name: str) -> int:
        known = self._number_of.get(name)
        if known is not None:
            return known
        digest = hashlib.sha256(name.encode()).digest()
        number = int.from_bytes(digest[:8], "big") >> (64 - _BITS)
        if self._name_of.setdefault(number, name) != name:
            raise BadInput(f"owners {name!r} and {self._name_of[number]!r} share a number")
        self._number_of[name] = number
        return number
