"""Suppression of erased owners, who are identified by a keyed hash and never by name.

Ledger and journal store the hashes. Every intake of examples checks them, so that an erased owner
does not return from a backup or a source file.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence

from dealfl.erasure.requests import Request

__all__ = ["admit", "list_suppressed", "owner_hash"]


def owner_hash(key: bytes, owner: str) -> bytes:
    """Return the keyed hash (HMAC-SHA256) that replaces an owner's name.

    Parameters
    ----------
    key : bytes
        Key of the job.
    owner : str
        Name of the owner.

    Returns
    -------
    bytes
        32 bytes.

    Examples
    --------
    >>> owner_hash(b"key of the job", "ann").hex()[:16]
    '5d93711dfac19823'
    """
    return hmac.digest(key, owner.encode(), hashlib.sha256)


def list_suppressed(requests: Iterable[Request]) -> tuple[bytes, ...]:
    """Return all owners in some requests.

    Parameters
    ----------
    requests : iterable of Request
        Erasure requests.

    Returns
    -------
    tuple of bytes
        Keyed hashes, sorted and without duplicates.
    """
    return tuple(sorted({owner for request in requests for owner in request.owners}))


def admit(
    rows: Sequence[tuple[bytes, bytes]], is_suppressed: Callable[[bytes], bool]
) -> list[tuple[bytes, bytes]]:
    """Return the rows whose owners are not suppressed.

    Parameters
    ----------
    rows : sequence of (bytes, bytes)
        Keyed hash of the owner, and body, of each record.
    is_suppressed : callable
        Function that takes a keyed hash and returns whether it is suppressed.

    Returns
    -------
    list of (bytes, bytes)
        The admitted rows, in the same order.
    """
    return [row for row in rows if not is_suppressed(row[0])]
