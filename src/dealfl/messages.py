"""Every record that travels between a worker and the server, in the order of a round.

Announce      worker → server   here I am, this is what I could train on
Welcome       server → worker   your incarnation, and who must not come back
Assignment    server → worker   train now, until this deadline
Declined      worker → server   not now, because …
Update        worker → server   what changed in my statistics, and what that cost
Receipt       server → worker   counted, durable
Refusal       server → worker   this update will never count, because …
Published     server → all      a new version of the model

Erase         server → all      forget these owners
Erased        worker → server   forgotten: N examples, or none
ErasedReceipt server → worker   your answer is on record
Withdraw      worker → server   an update under way holds what was erased: do not count it
Verdict       server → worker   withdrawn, or counted already
"""

from __future__ import annotations

import msgspec

__all__ = [
    "PROTOCOL",
    "Announce",
    "Assignment",
    "Declined",
    "Erase",
    "Erased",
    "ErasedReceipt",
    "Message",
    "Published",
    "Receipt",
    "Refusal",
    "Step",
    "Update",
    "Verdict",
    "Welcome",
    "Withdraw",
    "is_storable",
]

PROTOCOL = 1


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    job: str
    worker: str


class Announce(_Record, frozen=True, kw_only=True):
    """A worker is awake and says what it could do; `incarnation` 0 asks for one.

    Another `journal_id` under the same name means another incarnation.
    """

    incarnation: int
    journal_id: str
    receipted: int = 0
    schema_digest: str
    waiting: int
    held: int
    device: str = ""
    battery: float = 1.0
    charging: bool = False
    capacity_j: float = 0.0
    training: bool = False
    protocol: int = PROTOCOL


class Welcome(_Record, frozen=True, kw_only=True):
    """A worker's incarnation, and the keyed hashes of everybody erased so far.

    `journal_id` says which journal is meant: a late welcome must not reach another one.
    """

    incarnation: int
    journal_id: str
    erased: tuple[bytes, ...] = ()


class Assignment(_Record, frozen=True, kw_only=True):
    """Train now; an update that arrives after the deadline still counts, but earns nothing."""

    round: int
    deadline_s: float
    forget_fraction: str | None = None


class Declined(_Record, frozen=True, kw_only=True):
    """A worker will not train in this round."""

    round: int
    reason: str


class Update(_Record, frozen=True, kw_only=True):
    """A worker's reply: what changed in its statistics, and what that cost."""

    incarnation: int
    sequence: int
    round: int | None
    delta: bytes
    learned: int = 0
    evicted: int = 0
    operations: int = 0
    elapsed_s: float = 0.0
    energy_j: float = 0.0
    protocol: int = PROTOCOL


class Receipt(_Record, frozen=True, kw_only=True):
    """An update is on record and will count exactly once."""

    incarnation: int
    sequence: int


class Refusal(_Record, frozen=True, kw_only=True):
    """An update will never count."""

    incarnation: int
    sequence: int
    reason: str


class Published(_Record, frozen=True, kw_only=True):
    """A new version of the model; `worker` is empty, it is for everybody."""

    version: int
    digest: str
    statistics: bytes


class Erase(_Record, frozen=True, kw_only=True):
    """Forget these owners; only keyed hashes of their names travel."""

    request: str
    owners: tuple[bytes, ...]


class Erased(_Record, frozen=True, kw_only=True):
    """A worker has forgotten what was asked for; none found is an answer, too.

    The statistics show it once all updates up to `sequence` have been counted.
    """

    incarnation: int
    request: str
    examples: int
    sequence: int = 0


class ErasedReceipt(_Record, frozen=True, kw_only=True):
    """The answer to an erasure is on record."""

    request: str


class Withdraw(_Record, frozen=True, kw_only=True):
    """An update that was handed over may hold what was erased since: it should not count."""

    incarnation: int
    sequence: int


class Verdict(_Record, frozen=True, kw_only=True):
    """Whether an update was withdrawn in time, or had been counted already."""

    incarnation: int
    sequence: int
    withdrawn: bool


Message = (
    Announce
    | Welcome
    | Assignment
    | Declined
    | Update
    | Receipt
    | Refusal
    | Published
    | Erase
    | Erased
    | ErasedReceipt
    | Withdraw
    | Verdict
)


class Step(msgspec.Struct, frozen=True):
    """The result of one call of `handle`: messages to send, and when to be called again."""

    messages: tuple[Message, ...] = ()
    wake_at_s: float | None = None


def is_storable(message: Message) -> bool:
    """Return whether a database can keep every figure of a message.

    >>> is_storable(Withdraw(job="j", worker="w", incarnation=1, sequence=2**70))
    False
    """
    return all(_fits_column(value) for value in msgspec.structs.astuple(message))


def _fits_column(value: object) -> bool:
    if isinstance(value, (int, float)):
        return -(2**62) < value < 2**62
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    return True
