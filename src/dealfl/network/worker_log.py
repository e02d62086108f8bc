"""What a process of workers logs of its messages: selections, updates, erasures, each once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatchmethod

from dealfl.protocol import Assignment, Declined, Erased, Message, Receipt, Refusal, Update
from dealfl.storage import log

_REMEMBERED = 1_000  # messages, which are repeated until they are answered


class MessageLog:
    """Logs the messages of the workers of one process; repetitions are left out."""

    def __init__(self) -> None:
        self._told: dict[tuple[object, ...], None] = {}

    def note(self, messages: Iterable[Message]) -> None:
        """Log messages that were sent or have arrived."""
        for message in messages:
            self._note(message)

    @singledispatchmethod
    def _note(self, message: Message) -> None:
        """Log nothing: most messages repeat what others say."""

    @_note.register
    def _(self, message: Assignment) -> None:
        if self._is_new("selected", message.worker, message.epoch, message.round):
            log("selected", worker=message.worker, round=message.round)

    @_note.register
    def _(self, message: Declined) -> None:
        if self._is_new("declined", message.worker, message.epoch, message.round):
            log("declined", worker=message.worker, round=message.round, reason=message.reason)

    @_note.register
    def _(self, message: Update) -> None:
        if self._is_new("sent", message.worker, message.incarnation, message.sequence):
            log(
                "update sent",
                worker=message.worker,
                round=message.round,
                sequence=message.sequence,
                learned=message.learned,
                evicted=message.evicted,
                energy_j=message.energy_j,
                size_bytes=len(message.delta),
            )

    @_note.register
    def _(self, message: Receipt) -> None:
        if self._is_new("counted", message.worker, message.incarnation, message.sequence):
            log("update counted", worker=message.worker, sequence=message.sequence)

    @_note.register
    def _(self, message: Refusal) -> None:
        if self._is_new("refused", message.worker, message.incarnation, message.sequence):
            log(
                "update refused",
                worker=message.worker,
                reason=message.reason,
                level="warning",
                sequence=message.sequence,
            )

    @_note.register
    def _(self, message: Erased) -> None:
        if self._is_new("erased", message.worker, message.request, message.hash):
            log("erased", worker=message.worker, examples=message.examples)

    def _is_new(self, *key: object) -> bool:
        if key in self._told:
            return False
        self._told[key] = None
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        return True
