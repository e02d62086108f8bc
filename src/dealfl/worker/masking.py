"""How an update leaves a worker: as it is, or under a mask that only a keyholder can compute."""

from __future__ import annotations

from typing import Protocol

import msgspec

from dealfl.exact import Schema, Statistics
from dealfl.masks import Masker, Ring
from dealfl.protocol import MaskedUpdate, Update

_FIELDS = Update.__struct_fields__


class Masking(Protocol):
    """What happens to an update when it is made or changed, and when it is sent."""

    key_name: str  # of the keyholder's public key; empty without one

    def size_of(self, delta: bytes) -> int:
        """Return how many bytes a delta has as it is sent."""

    def prepare(self, update: Update, fresh: int) -> Update:
        """Return a new or changed update for the outbox; `fresh` counts examples never sent."""

    def finish(self, update: Update) -> Update:
        """Return an update as it is sent; the same bytes again for a repetition."""


class Unmasked:
    """The server sees every update."""

    key_name = ""

    def size_of(self, delta: bytes) -> int:
        """Return the size of the delta itself."""
        return len(delta)

    def prepare(self, update: Update, fresh: int) -> Update:  # noqa: ARG002
        """Return the update itself."""
        return update

    def finish(self, update: Update) -> Update:
        """Return the update itself."""
        return update


class UnderMasks:
    """The server sees sums of cohorts only. The outbox holds the delta, and the nonce of its mask.

    The first update of every incarnation above the first repeats what was sent before, so that
    nothing in it is fresh.
    """

    def __init__(self, masker: Masker, schema: Schema) -> None:
        self.key_name = masker.key_name
        self._masker = masker
        self._ring = Ring(schema, masker.bits)
        self._ring.require_small()
        self._schema_digest = schema.digest()

    def size_of(self, delta: bytes) -> int:  # noqa: ARG002
        """Return the size of a packed vector."""
        return self._ring.packed_bytes

    def prepare(self, update: Update, fresh: int) -> Update:
        """Draw a nonce for an update."""
        again = update.incarnation > 1 and update.sequence == 1
        fields = {name: getattr(update, name) for name in _FIELDS}
        return MaskedUpdate(
            **fields,
            keyholder=self.key_name,
            nonce=self._masker.draw_nonce(update.delta),
            fresh=0 if again else fresh,
        )

    def finish(self, update: Update) -> Update:
        """Add the mask, and seal the header."""
        assert isinstance(update, MaskedUpdate), "an outbox under masks holds no other"
        vector = self._ring.vector(Statistics.from_bytes(update.delta, trusted=True))
        plain = msgspec.structs.replace(update, session=0)
        masked = self._masker.mask(plain, self._ring, self._schema_digest, vector)
        return msgspec.structs.replace(masked, session=update.session)
