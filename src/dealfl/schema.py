"""What shapes statistics: the learner, its settings that matter to them, and the arrays."""

from __future__ import annotations

import hashlib

import msgspec
import numpy as np

from dealfl.errors import Incompatible, OutOfBounds
from dealfl.integers import Integers

__all__ = ["ArraySpec", "Schema", "Setting"]

Setting = bool | int | float | str | None | list[bool | int | float | str]


class ArraySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One named array: how many integers it has, and how many bits each may need."""

    name: str
    size: int
    bits: int = 64

    @property
    def wide(self) -> bool:
        """Whether the values may need more than 64 bits."""
        return self.bits > 64

    def require_fit(self, values: Integers) -> None:
        """Raise `OutOfBounds` for values that need more bits; wider arrays check themselves."""
        if self.bits == 32 and np.any(values.low != values.low.astype(np.int32)):
            raise OutOfBounds(f"a count in {self.name!r} does not fit 32 bits")


class Schema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Statistics of equal schemas can be added.

    A penalty, a solver or a k is no part of it: they shape the model, not the statistics.
    """

    learner: str
    settings: dict[str, Setting]
    arrays: tuple[ArraySpec, ...]

    def canonical(self) -> bytes:
        """Return the same bytes for the same schema, whatever the order of its settings."""
        return msgspec.json.encode(self, order="deterministic")

    def digest(self) -> str:
        """Return the hash by which worker and server tell whether their statistics fit."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def require_same(self, other: Schema) -> None:
        """Raise `Incompatible`, naming the first difference, unless `other` is equal.

        >>> Schema("a", {"bits": 8}, ()).require_same(Schema("a", {"bits": 9}, ()))
        Traceback (most recent call last):
        dealfl.errors.Incompatible: statistics made with bits = 9, but here it is 8; both must \
come from the same job
        """
        if not self.same(other):
            raise Incompatible(_difference(self, other))

    def same(self, other: Schema) -> bool:
        """Whether both are written the same: 1 and 1.0 are different settings."""
        return other is self or other.canonical() == self.canonical()


def _difference(ours: Schema, theirs: Schema) -> str:
    if ours.learner != theirs.learner:
        return f"statistics of a {theirs.learner} do not fit a {ours.learner}"
    for name in sorted(ours.settings.keys() | theirs.settings.keys()):
        here, there = _shown(ours, name), _shown(theirs, name)
        if here != there:
            return (
                f"statistics made with {name} = {there}, but here it is {here}; "
                "both must come from the same job"
            )
    return f"statistics with the arrays {theirs.arrays!r}, but here they are {ours.arrays!r}"


def _shown(schema: Schema, name: str) -> str:
    return repr(schema.settings[name]) if name in schema.settings else "not set"
