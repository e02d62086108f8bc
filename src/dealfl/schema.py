"""What shapes statistics: the learner, its settings that matter to them, and the arrays."""

from __future__ import annotations

import msgspec

from dealfl.errors import Incompatible

__all__ = ["ArraySpec", "Schema"]


class ArraySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One named array: how many integers it has, and how many bits each may need."""

    name: str
    size: int
    bits: int = 64

    @property
    def wide(self) -> bool:
        """Whether the values may need more than 64 bits."""
        return self.bits > 64


class Schema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Statistics of equal schemas can be added.

    A penalty, a solver or a k is no part of it: they shape the model, not the statistics.
    """

    learner: str
    settings: dict[str, object]
    arrays: tuple[ArraySpec, ...]

    def canonical(self) -> bytes:
        """Return the same bytes for the same schema, whatever the order of its settings."""
        return msgspec.json.encode(self, order="deterministic")

    def require_same(self, other: Schema) -> None:
        """Raise `Incompatible`, naming the first difference, unless `other` is equal.

        >>> Schema("a", {"bits": 8}, ()).require_same(Schema("a", {"bits": 9}, ()))
        Traceback (most recent call last):
        dealfl.errors.Incompatible: statistics made with bits = 9, but here it is 8; both must \
come from the same job
        """
        if other != self:
            raise Incompatible(_difference(self, other))


def _difference(ours: Schema, theirs: Schema) -> str:
    if ours.learner != theirs.learner:
        return f"statistics of a {theirs.learner} do not fit a {ours.learner}"
    for name in sorted(ours.settings.keys() | theirs.settings.keys()):
        here, there = ours.settings.get(name), theirs.settings.get(name)
        if here != there:
            return (
                f"statistics made with {name} = {there!r}, but here it is {here!r}; "
                "both must come from the same job"
            )
    return f"statistics with the arrays {theirs.arrays!r}, but here they are {ours.arrays!r}"
