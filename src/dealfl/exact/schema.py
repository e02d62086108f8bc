"""The schema of statistics: the learner, its settings that determine them, and the arrays."""

from __future__ import annotations

import hashlib

import msgspec
import numpy as np

from dealfl.errors import Incompatible, OutOfBounds
from dealfl.exact.integers import Integers

__all__ = ["ArraySpec", "Schema", "Setting"]

Setting = bool | int | float | str | None | list[bool | int | float | str]


class ArraySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Name, size and width of one array of integers.

    Parameters
    ----------
    name : str
        Name of the array in its schema.
    size : int
        Number of integers.
    bits : {32, 64, 96}, default 64
        Width of an integer.
    """

    name: str
    size: int
    bits: int = 64

    @property
    def wide(self) -> bool:
        """Whether a value can need more than 64 bits."""
        return self.bits > 64

    def require_fit(self, values: Integers) -> None:
        """Check that values fit the width of a 32-bit array; wider vectors check themselves.

        Parameters
        ----------
        values : Integers
            Values of the array.

        Raises
        ------
        OutOfBounds
            A value needs more than 32 bits.
        """
        if self.bits == 32 and np.any(values.low != values.low.astype(np.int32)):
            raise OutOfBounds(f"a count in array {self.name!r} does not fit 32 bits")


class Schema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What two sets of statistics must have in common to be added.

    Settings that shape only the model, such as a penalty, a solver or k, are not part of it.

    Parameters
    ----------
    learner : str
        Registered name of the learner.
    settings : dict of str to Setting
        Settings of the learner that determine the statistics.
    arrays : tuple of ArraySpec
        The arrays of the statistics.
    """

    learner: str
    settings: dict[str, Setting]
    arrays: tuple[ArraySpec, ...]

    def canonical(self) -> bytes:
        """Return canonical JSON: equal for equal schemas, in whatever order their settings are."""
        return msgspec.json.encode(self, order="deterministic")

    def digest(self) -> str:
        """Return the SHA-256 by which a worker and the server compare their schemas."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def require_same(self, other: Schema) -> None:
        """Check that another schema is equal.

        Parameters
        ----------
        other : Schema
            Schema to compare with.

        Raises
        ------
        Incompatible
            The schemas differ; the message names the first difference.

        Examples
        --------
        >>> Schema("a", {"bits": 8}, ()).require_same(Schema("a", {"bits": 9}, ()))
        Traceback (most recent call last):
        dealfl.errors.Incompatible: the statistics have bits = 9, but this model has bits = 8; ...
        """
        if not self.same(other):
            raise Incompatible(_difference(self, other))

    def same(self, other: Schema) -> bool:
        """Return whether two schemas have the same canonical bytes; 1 and 1.0 differ.

        Parameters
        ----------
        other : Schema
            Schema to compare with.

        Returns
        -------
        bool
            True if the schemas are equal.
        """
        return other is self or other.canonical() == self.canonical()


def _difference(ours: Schema, theirs: Schema) -> str:
    if ours.learner != theirs.learner:
        return f"statistics of learner {theirs.learner} cannot be used by learner {ours.learner}"
    for name in sorted(ours.settings.keys() | theirs.settings.keys()):
        here, there = _shown(ours, name), _shown(theirs, name)
        if here != there:
            return (
                f"the statistics have {name} = {there}, but this model has {name} = {here}; "
                "both must come from the same job"
            )
    return f"the statistics have arrays {theirs.arrays!r}, but this model has {ours.arrays!r}"


def _shown(schema: Schema, name: str) -> str:
    return repr(schema.settings[name]) if name in schema.settings else "not set"
