"""Requests of erasure: owners and examples as keyed hashes, in one numbered list.

The server keeps all requests in one list that only grows. A worker works through it in order and
tells how far it has come. A request is *settled* when every worker has passed it and the updates
that remove the erased examples are counted. It is *outstanding* until a version contains it.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from dealfl.protocol import Position, plain_name

__all__ = [
    "Request",
    "count_persons",
    "example_hash",
    "hash_request",
    "next_position",
    "owner_hash",
    "readmission_of",
    "resolve_owner",
]

# Entries of a request: 32 bytes for an owner, or one of these letters and 32 bytes
EXAMPLE, READMISSION = b"e", b"r"
_HASH_BYTES = 32


def owner_hash(key: bytes, owner: str) -> bytes:
    """Return the keyed hash (HMAC-SHA256) that replaces an owner's name.

    Parameters
    ----------
    key : bytes
        Key of the job.
    owner : str
        Name of the owner; `plain_name` decides which names are equal.

    Returns
    -------
    bytes
        32 bytes.

    Examples
    --------
    >>> owner_hash(b"key of the job", "ann").hex()[:16]
    '5d93711dfac19823'
    """
    return hmac.digest(key, plain_name(owner).encode(), "sha256")


def example_hash(key: bytes, owner: bytes, body: bytes) -> bytes:
    """Return the entry of a request that erases one example.

    Parameters
    ----------
    key : bytes
        Key of the job.
    owner : bytes
        Keyed hash of the owner.
    body : bytes
        The encoded example; equal examples of an owner have the same hash.

    Returns
    -------
    bytes
        33 bytes.
    """
    return EXAMPLE + hmac.digest(key, owner + body, "sha256")


def readmission_of(owner: bytes) -> bytes:
    """Return the entry of a request that readmits an owner who was erased.

    Parameters
    ----------
    owner : bytes
        Keyed hash of the owner.

    Returns
    -------
    bytes
        33 bytes.
    """
    return READMISSION + owner


def split_entry(entry: bytes) -> tuple[bytes, bytes]:
    """Split an entry of a request.

    Parameters
    ----------
    entry : bytes
        The entry.

    Returns
    -------
    tuple of bytes and bytes
        Its letter, empty for an owner, and its hash.
    """
    return (entry[:1], entry[1:]) if len(entry) > _HASH_BYTES else (b"", entry)


def count_persons(entries: Iterable[bytes]) -> int:
    """Return the number of persons that a request erases; an example counts as one.

    Parameters
    ----------
    entries : iterable of bytes
        Entries of the request.

    Returns
    -------
    int
        The number; readmissions do not count.
    """
    return sum(split_entry(one)[0] != READMISSION for one in entries)


def resolve_owner(key: bytes, owner: str) -> bytes:
    """Return the keyed hash of an owner whose name is given, or "#" and the hash itself.

    Parameters
    ----------
    key : bytes
        Key of the job.
    owner : str
        Name of the owner, or "#" and 64 hexadecimal digits.

    Returns
    -------
    bytes
        32 bytes.

    Examples
    --------
    >>> resolve_owner(b"key", "#" + owner_hash(b"key", "ann").hex()) == owner_hash(b"key", "ann")
    True
    """
    if re.fullmatch("#[0-9a-f]{64}", owner):
        return bytes.fromhex(owner[1:])
    return owner_hash(key, owner)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to erase owners.

    Parameters
    ----------
    name : str
        Name of the request.
    owners : tuple of bytes
        Entries: keyed hashes of owners and examples, and readmissions.
    requested_s : float
        Time of the request, in seconds of the server's clock.
    requested_by : str
        Who requested it.
    published : bool
        Whether a version that was delivered contains the erasure.
    """

    name: str
    owners: tuple[bytes, ...]
    requested_s: float
    requested_by: str = ""
    published: bool = False

    @property
    def is_readmission(self) -> bool:
        """Whether the request readmits owners."""
        return any(split_entry(one)[0] == READMISSION for one in self.owners)


def hash_request(name: str, owners: Sequence[bytes]) -> bytes:
    """Return a hash of a request; the same name with other owners is another request.

    Parameters
    ----------
    name : str
        Name of the request.
    owners : sequence of bytes
        Keyed hashes of the owners, sorted.

    Returns
    -------
    bytes
        16 bytes.

    Examples
    --------
    >>> hash_request("r1", [b"ann"]) == hash_request("r1", [b"bob"])
    False
    """
    parts = [name.encode(errors="surrogatepass"), *owners]
    lengths = b"".join(len(part).to_bytes(4, "little") for part in parts)
    return sha256(lengths + b"".join(parts)).digest()[:16]


def next_position(position: Position, hashes: Iterable[bytes]) -> Position:
    """Return the place in the list of requests after some more of them.

    Parameters
    ----------
    position : Position
        Place before them.
    hashes : iterable of bytes
        Hash of each request, in the order of the list.

    Returns
    -------
    Position
        Two lists have the same position only if they are equal up to there.

    Examples
    --------
    >>> start = Position()
    >>> next_position(start, [b"r", b"s"]) == next_position(next_position(start, [b"r"]), [b"s"])
    True
    """
    for one in hashes:
        chain = sha256(position.chain + one).digest()[:16]
        position = Position(position.number + 1, chain)
    return position
