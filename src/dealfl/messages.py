"""Every record that travels between a worker and the server, in the order of a round.

Announce      worker → server   state of the worker and of its device
Welcome       server → worker   the worker's incarnation, and the erased owners
Assignment    server → worker   train now, before this deadline
Declined      worker → server   the worker does not train in this round
Update        worker → server   a delta of the statistics, and its cost
Receipt       server → worker   the update is durable and counts once
Refusal       server → worker   the update never counts
Published     server → all      a new version of the model

Erase         server → all      forget these owners
Erased        worker → server   number of examples that were deleted
ErasedReceipt server → worker   the answer is durable
Withdraw      worker → server   do not count an update that holds erased examples
Verdict       server → worker   the update is withdrawn, or it was counted already
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


class Record(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """A message of a job, from or to a worker."""

    job: str
    worker: str


class Announce(Record, frozen=True, kw_only=True):
    """A worker is awake and reports its state.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker.
    incarnation : int
        Incarnation of the worker; 0 requests one.
    journal_id : str
        Random id of the worker's journal. Another id under a known name starts a new incarnation.
    receipted : int
        All updates up to this sequence have a receipt or a verdict.
    schema_digest : str
        Hash of the schema. A worker with another schema is never selected.
    waiting : int
        Number of examples that are not learned yet.
    held : int
        Number of examples that are learned.
    device : str
        Kind of device, such as the name of a phone.
    battery : float
        Charge of the battery, as a share of its capacity.
    charging : bool
        Whether the device is charging. The energy budget does not apply then.
    capacity_j : float
        Capacity of the battery in joules. If it is 0 (unknown), no energy budget applies.
    training : bool
        Whether an update exists that was not sent yet.
    protocol : int
        Version of the protocol.
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


class Welcome(Record, frozen=True, kw_only=True):
    """The server assigns an incarnation to a worker and lists the erased owners.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker.
    incarnation : int
        New incarnation of the worker.
    journal_id : str
        Journal that the message is for. A worker with another journal ignores the incarnation.
    erased : tuple of bytes
        Keyed hashes of all owners erased so far.
    """

    incarnation: int
    journal_id: str
    erased: tuple[bytes, ...] = ()


class Assignment(Record, frozen=True, kw_only=True):
    """The worker trains now. An update after the deadline counts, but earns no reward.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker.
    round : int
        Number of the round. A worker ignores a number that it has seen before.
    deadline_s : float
        End of the round, in seconds of the server's clock.
    forget_fraction : str or None
        θ for this training as a decimal, such as "0.02"; None uses the worker's own.
    """

    round: int
    deadline_s: float
    forget_fraction: str | None = None


class Declined(Record, frozen=True, kw_only=True):
    """The worker does not train in this round.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker.
    round : int
        Number of the round.
    reason : str
        Reason, as text for people.
    """

    round: int
    reason: str


class Update(Record, frozen=True, kw_only=True):
    """A worker sends the change of its statistics and the cost of the training.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker.
    incarnation : int
        Incarnation of the worker that made the update.
    sequence : int
        Number of the update in its incarnation: 1, 2, 3, …
    round : int or None
        Round of the assignment; None if the update answers no assignment.
    delta : bytes
        Difference of the statistics, in canonical bytes.
    learned : int
        Number of examples learned.
    evicted : int
        Number of examples forgotten by policy.
    operations : int
        Number of multiply-adds, computed by the learner's formulas.
    elapsed_s : float
        Duration of the training in seconds.
    energy_j : float
        Energy of the training in joules, measured or modelled by the worker's meter.
    protocol : int
        Version of the protocol.
    """

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


class Receipt(Record, frozen=True, kw_only=True):
    """An update is durable and counts exactly once.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker.
    incarnation : int
        Incarnation of the update.
    sequence : int
        Sequence of the update.
    """

    incarnation: int
    sequence: int


class Refusal(Record, frozen=True, kw_only=True):
    """An update never counts.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker.
    incarnation : int
        Incarnation of the update.
    sequence : int
        Sequence of the update.
    reason : str
        Reason, as text for people.
    """

    incarnation: int
    sequence: int
    reason: str


class Published(Record, frozen=True, kw_only=True):
    """A new version of the model, for all workers.

    Parameters
    ----------
    job, worker : str
        Name of the job; `worker` is empty.
    version : int
        Number of the version: 1, 2, 3, … A worker keeps the highest.
    digest : str
        Digest of the statistics.
    statistics : bytes
        Statistics of the model, in canonical bytes.
    """

    version: int
    digest: str
    statistics: bytes


class Erase(Record, frozen=True, kw_only=True):
    """A worker forgets all examples of these owners. Only keyed hashes of names are sent.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker; an empty `worker` means all workers.
    request : str
        Name of the erasure request.
    owners : tuple of bytes
        Keyed hashes of the owners.
    """

    request: str
    owners: tuple[bytes, ...]


class Erased(Record, frozen=True, kw_only=True):
    """A worker has answered an erasure request, even if it held no such example.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker.
    incarnation : int
        Incarnation of the worker that made the answer.
    request : str
        Name of the erasure request.
    examples : int
        Number of examples deleted, in any state; may be 0.
    sequence : int
        Last update made so far. The model reflects the erasure once this update is counted.
    """

    incarnation: int
    request: str
    examples: int
    sequence: int = 0


class ErasedReceipt(Record, frozen=True, kw_only=True):
    """The answer to an erasure request is durable.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker.
    request : str
        Name of the erasure request.
    """

    request: str


class Withdraw(Record, frozen=True, kw_only=True):
    """The server must not count an update that was sent before an erasure.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker.
    incarnation : int
        Incarnation of the update.
    sequence : int
        Sequence of the update.
    """

    incarnation: int
    sequence: int


class Verdict(Record, frozen=True, kw_only=True):
    """The server's answer to a withdrawal.

    Parameters
    ----------
    job, worker : str
        Name of the job and of the worker.
    incarnation : int
        Incarnation of the update.
    sequence : int
        Sequence of the update.
    withdrawn : bool
        True: the update never counts. False: it is durable and counts.
    """

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
    """The result of one call of `handle`.

    Parameters
    ----------
    messages : tuple of Message
        Messages to send, in order.
    wake_at_s : float or None
        Time of the next call if no message arrives before, in seconds of the caller's clock;
        None if no call is needed.
    """

    messages: tuple[Message, ...] = ()
    wake_at_s: float | None = None


def is_storable(message: Message) -> bool:
    """Return whether a database can store every value of a message.

    Parameters
    ----------
    message : Message
        A message that was received.

    Returns
    -------
    bool
        False for numbers of 2⁶² and above, and for text with unpaired surrogates.

    Examples
    --------
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
