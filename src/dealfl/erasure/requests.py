"""Requests of erasure: owners and examples as keyed hashes, in one numbered list.

The server keeps all requests in one list that only grows. A worker works through it in order and
tells how far it has come. A request is *settled* when every worker has passed it and the updates
that remove the erased examples are counted. It is *outstanding* until a version contains it; while
few persons are, versions are held back, so that none reveals a single person.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import math
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta

from dealfl.errors import BadInput
from dealfl.protocol import Position, plain_name

# Entries of a request: 32 bytes for an owner, or one of these letters and 32 bytes
EXAMPLE = b"e"
READMISSION = b"r"
_HASH_BYTES = 32
_SLOW_COST = 13  # 2¹³ blocks of 1 kB: about 30 ms, and 8 MB
_MIN_SLOW_COST = 1  # scrypt takes no less
_MAX_SLOW_COST = 16
_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"  # begins the names of requests
_COMMITTED = 8  # persons with a commitment in a certificate


def draw_slow_key() -> bytes:
    """Return a key for hashes of owners that many devices hold: each guess of a name takes time."""
    return bytes([_SLOW_COST]) + secrets.token_bytes(_HASH_BYTES)


@lru_cache(maxsize=1 << 16)
def _slow_hash(key: bytes, name: bytes) -> bytes:
    cost = 1 << min(max(key[0], _MIN_SLOW_COST), _MAX_SLOW_COST)
    memory = 1 << 27
    return hashlib.scrypt(name, salt=key, n=cost, r=8, p=1, maxmem=memory, dklen=_HASH_BYTES)


def owner_hash(key: bytes, owner: str) -> bytes:
    """Return the keyed hash that replaces an owner's name: HMAC-SHA256, or scrypt for a slow key.

    Who holds the key can guess names. The key of a run stays in its folder; that of a network is on
    every device, so that it is slow: it has a byte more, the logarithm of its cost.

    Examples
    --------
    >>> owner_hash(b"key of the job", "ann").hex()[:16]
    '5d93711dfac19823'
    """
    name = plain_name(owner).encode(errors="surrogatepass")
    is_slow = len(key) == _HASH_BYTES + 1
    return _slow_hash(key, name) if is_slow else hmac.digest(key, name, "sha256")


def example_hash(key: bytes, owner: bytes, body: bytes) -> bytes:
    """Return the entry of a request that erases one example."""
    return EXAMPLE + hmac.digest(key, owner + body, "sha256")


def readmission_of(owner: bytes) -> bytes:
    """Return the entry of a request that readmits an owner who was erased."""
    return READMISSION + owner


def split_entry(entry: bytes) -> tuple[bytes, bytes]:
    """Return the letter of an entry, empty for an owner, and its hash."""
    return (entry[:1], entry[1:]) if len(entry) > _HASH_BYTES else (b"", entry)


def count_persons(entries: Iterable[bytes]) -> int:
    """Return the number of persons that a request erases; an example counts as one."""
    return sum(split_entry(entry)[0] != READMISSION for entry in entries)


def resolve_owner(key: bytes, owner: str) -> tuple[bytes, ...]:
    """Return the keyed hash of an owner whose name is given, or "#" and the hash itself.

    A person can have a name that looks like a hash. Both hashes are returned then.

    Examples
    --------
    >>> ann = owner_hash(b"key", "ann")
    >>> ann in resolve_owner(b"key", "#" + ann.hex()), resolve_owner(b"key", "ann") == (ann,)
    (True, True)
    """
    named = owner_hash(key, owner)
    if re.fullmatch("#[0-9a-f]{64}", plain_name(owner)):
        return bytes.fromhex(plain_name(owner)[1:]), named
    return (named,)


class ErasureRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request: its name, who made it, entries, and commitments with their salts."""

    name: str
    requested_by: str
    entries: Annotated[list[bytes], Meta(min_length=1)]
    commitments: list[str] = []
    salts: dict[str, str] = {}  # never written to the file

    @classmethod
    def erasing(
        cls, owners: Iterable[str], examples: Sequence[str], key: bytes, requested_by: str
    ) -> ErasureRequest:
        """Return a request to erase persons, and examples given by their ids."""
        names = _plain_names(owners)
        if not names and not examples:
            raise BadInput("no person is named; give the names of one or more owners")
        wrong = [example for example in examples if not re.fullmatch("[0-9a-f]{64}", example)]
        if wrong:
            raise BadInput(
                f"{wrong[0]!r} is not the id of an example; `dealfl show RUN OWNER --ids` lists "
                "them"
            )
        salts = {name: secrets.token_bytes(16) for name in [*names, *examples][:_COMMITTED]}
        return cls(
            name=_new_name(),
            requested_by=encodable(requested_by or _account()),
            entries=[
                *(entry for name in names for entry in resolve_owner(key, name)),
                *(EXAMPLE + bytes.fromhex(example) for example in examples),
            ],
            commitments=[commit_to(name, salt) for name, salt in salts.items()],
            salts={name: salt.hex() for name, salt in salts.items()},
        )

    @classmethod
    def readmitting(cls, owners: Iterable[str], key: bytes, requested_by: str) -> ErasureRequest:
        """Return a request to readmit persons who consent again."""
        names = _plain_names(owners)
        if not names:
            raise BadInput("no person is named; give the names of one or more owners")
        hashes = [entry for name in names for entry in resolve_owner(key, name)]
        entries = [readmission_of(entry) for entry in hashes]
        return cls(
            name=_new_name(), requested_by=encodable(requested_by or _account()), entries=entries
        )

    @property
    def is_readmission(self) -> bool:
        """Whether the request readmits persons."""
        return split_entry(self.entries[0])[0] == READMISSION


def _plain_names(owners: Iterable[str]) -> list[str]:
    return sorted({plain_name(owner) for owner in owners} - {""})


def _new_name() -> str:
    """Return a name that comes after those before it, also in the same second."""
    now_s = time.time()
    return f"{format_stamp(now_s)} {int(now_s % 1 * 0x10000):04x}{secrets.token_hex(2)}"


def encodable(text: str) -> str:
    """Return a text of the system that can be written; its bytes that are no text become "?".

    >>> encodable("r\\udce9sum\\udce9")
    'r?sum?'
    """
    return text.encode(errors="replace").decode()


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no accounts
        return "unknown"


def format_stamp(time_s: float) -> str:
    """Return a time in UTC, as in RFC 3339."""
    moment = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")
    return moment.replace("+00:00", "Z")


def read_stamp(request: str) -> str:
    """Return the time in the name of a request; empty if it has none.

    >>> read_stamp("2026-11-17T12:00:00Z-5f0c"), read_stamp("own name")
    ('2026-11-17T12:00:00Z', '')
    """
    stamped = re.match(_STAMP, request)
    return stamped[0] if stamped else ""


@dataclass(frozen=True, slots=True)
class RecordedErasure:
    """A request as the server has it on record."""

    name: str
    owners: tuple[bytes, ...]  # entries: keyed hashes of owners and examples, and readmissions
    requested_s: float  # of the server's clock
    requested_by: str = ""
    published: bool = False  # whether a version that was delivered contains the erasure

    @property
    def is_readmission(self) -> bool:
        """Whether the request readmits owners."""
        return any(split_entry(entry)[0] == READMISSION for entry in self.owners)


def commit_to(owner: str, salt: bytes) -> str:
    """Return the commitment to a person in a certificate."""
    return hashlib.sha256(salt + plain_name(owner).encode(errors="surrogatepass")).hexdigest()


def hash_request(name: str, owners: Sequence[bytes]) -> bytes:
    """Return a hash of a request; the same name with other owners is another request.

    Examples
    --------
    >>> hash_request("r1", [b"ann"]) == hash_request("r1", [b"bob"])
    False
    >>> hash_request("r1", [b"ann"]).hex()  # stored by servers and workers
    '1bd3157b36069845932987816b772117'
    """
    parts = [name.encode(errors="surrogatepass"), *owners]
    lengths = b"".join(len(part).to_bytes(4, "little") for part in parts)
    return sha256(lengths + b"".join(parts)).digest()[:16]


def next_position(position: Position, hashes: Iterable[bytes]) -> Position:
    """Return the place in the list of requests after some more of them.

    Examples
    --------
    >>> start = Position()
    >>> next_position(start, [b"r", b"s"]) == next_position(next_position(start, [b"r"]), [b"s"])
    True
    """
    for request_hash in hashes:
        chain = sha256(position.chain + request_hash).digest()[:16]
        position = Position(position.number + 1, chain)
    return position


@dataclass(frozen=True, slots=True)
class Outstanding:
    """The persons who left the model since the last published version."""

    count: int  # by erasure or eviction
    settled: bool  # whether all requests of erasure are
    since_s: float  # the oldest request, or else the last version; or a later release by deadline


@dataclass(frozen=True, slots=True)
class ReleaseRule:
    """Hold versions back until enough persons have left, so that none reveals a single person.

    Examples
    --------
    >>> rule = ReleaseRule(batch=2, deadline_s=3600.0)
    >>> rule.release_at_s(Outstanding(1, True, 0.0)), rule.release_at_s(Outstanding(2, True, 0.0))
    (3600.0, -inf)
    """

    batch: int  # minimum number of persons who left, for a release; 1 releases at once
    deadline_s: float  # after which one version is released; the time then starts again

    def release_at_s(self, outstanding: Outstanding) -> float:
        """Return the time at which the next version may be published."""
        enough = outstanding.count >= self.batch and outstanding.settled
        if not outstanding.count or self.batch == 1 or enough:
            return -math.inf
        return outstanding.since_s + self.deadline_s
