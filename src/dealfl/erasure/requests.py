"""Rules of erasure: owners as keyed hashes, the numbered list of requests, release of versions.

The server keeps all requests in one list that only grows. A worker works through it in order and
tells how far it has come. A request is *settled* when every worker has passed it and the updates
that remove the erased examples are counted. It is *outstanding* until a version contains it.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dealfl.messages import Position

__all__ = [
    "Outstanding",
    "ReleaseRule",
    "Request",
    "hash_request",
    "next_position",
    "owner_hash",
    "plain_name",
    "resolve_owner",
]


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
    return hmac.digest(key, plain_name(owner).encode(), hashlib.sha256)


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


def plain_name(owner: str) -> str:
    """Return the form in which names of owners are compared: NFC, without space around it.

    Parameters
    ----------
    owner : str
        Name of an owner.

    Returns
    -------
    str
        The name; equal for names that look alike.

    Examples
    --------
    >>> plain_name(" Rene\u0301 ") == "Ren\u00e9"
    True
    """
    return unicodedata.normalize("NFC", owner).strip()


@dataclass(frozen=True, slots=True)
class Request:
    """A request to erase owners.

    Parameters
    ----------
    name : str
        Name of the request.
    owners : tuple of bytes
        Keyed hashes of the owners.
    requested_s : float
        Time of the request, in seconds of the server's clock.
    published : bool
        Whether a version that was delivered contains the erasure.
    """

    name: str
    owners: tuple[bytes, ...]
    requested_s: float
    published: bool = False


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
    return hashlib.sha256(lengths + b"".join(parts)).digest()[:16]


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
        chain = hashlib.sha256(position.chain + one).digest()[:16]
        position = Position(position.number + 1, chain)
    return position


@dataclass(frozen=True, slots=True)
class Outstanding:
    """The requests that no published version contains.

    Parameters
    ----------
    count : int
        Their number.
    settled : bool
        Whether all of them are settled.
    since_s : float
        Time of the oldest, or of the last release by the deadline, if that is later.
    """

    count: int
    settled: bool
    since_s: float


@dataclass(frozen=True, slots=True)
class ReleaseRule:
    """Hold versions back until enough erasures are settled, so that none reveals a single person.

    Parameters
    ----------
    batch : int
        Minimum number of outstanding erasures for a release; 1 releases at once.
    deadline_s : float
        Maximum time that erasures hold versions back, in seconds. Then one version is released;
        the time starts again for what is still outstanding.

    Examples
    --------
    >>> rule = ReleaseRule(batch=2, deadline_s=3600.0)
    >>> rule.release_at_s(Outstanding(1, True, 0.0)), rule.release_at_s(Outstanding(2, True, 0.0))
    (3600.0, -inf)
    """

    batch: int
    deadline_s: float

    def release_at_s(self, outstanding: Outstanding) -> float:
        """Return the time at which the next version may be published.

        Parameters
        ----------
        outstanding : Outstanding
            Requests that no published version contains.

        Returns
        -------
        float
            Time in seconds of the server's clock; −∞ if a version may be published now.
        """
        enough = outstanding.count >= self.batch and outstanding.settled
        if not outstanding.count or self.batch == 1 or enough:
            return -math.inf
        return outstanding.since_s + self.deadline_s
