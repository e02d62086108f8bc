"""Who must not come back: erased owners are known by a keyed hash, never by name.

Ledger and journal keep the hashes; every intake of examples consults them, so that an erased
person returns neither from a backup nor from a source file.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence

from dealfl.erasure.requests import Request

__all__ = ["admit", "list_suppressed", "owner_hash"]


def owner_hash(key: bytes, owner: str) -> bytes:
    """Return the keyed hash that stands for an owner wherever a name must not appear.

    >>> owner_hash(b"key of the job", "ann").hex()[:16]
    '5d93711dfac19823'
    """
    return hmac.digest(key, owner.encode(), hashlib.sha256)


def list_suppressed(requests: Iterable[Request]) -> tuple[bytes, ...]:
    """Return everybody whom the requests name, in order."""
    return tuple(sorted({owner for request in requests for owner in request.owners}))


def admit(
    rows: Sequence[tuple[bytes, bytes]], is_suppressed: Callable[[bytes], bool]
) -> list[tuple[bytes, bytes]]:
    """Return the rows (keyed hash of the owner, body) whose owners may be learned."""
    return [row for row in rows if not is_suppressed(row[0])]
