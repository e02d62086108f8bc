"""Messages about the erasure of owners."""

from __future__ import annotations

from dealfl.messages.record import Record

__all__ = ["Erase", "Erased", "ErasedReceipt", "Verdict", "Withdraw"]


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
