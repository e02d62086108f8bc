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

from dealfl.messages.erasing import Erase, Erased, ErasedReceipt, Verdict, Withdraw
from dealfl.messages.record import PROTOCOL
from dealfl.messages.training import (
    Announce,
    Assignment,
    Declined,
    Published,
    Receipt,
    Refusal,
    Update,
    Welcome,
)

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
