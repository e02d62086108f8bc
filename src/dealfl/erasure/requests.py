"""Requests to erase owners, and the answers of workers: what is settled, what is outstanding.

Every worker answers every request, also if it holds nothing. A request is *settled* when all
workers have answered and the updates that take the erased examples back are counted. It is
*outstanding* until a published version shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Answer", "Outstanding", "Request", "is_settled"]


@dataclass(frozen=True, slots=True)
class Request:
    """Owners to be erased, by their keyed hashes."""

    name: str
    owners: tuple[bytes, ...]
    asked_s: float
    published: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker erased; statistics show it once its updates up to `sequence` are counted."""

    examples: int
    incarnation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Outstanding:
    """A request that no published version shows yet."""

    request: Request
    settled: bool


class Progress(Protocol):
    """Up to which sequence the updates of a worker's incarnation are counted."""

    @property
    def incarnation(self) -> int:
        """The worker's present incarnation."""

    @property
    def counted(self) -> int:
        """The sequence of the last update that was counted."""


def is_settled(answers: Mapping[str, Answer], workers: Mapping[str, Progress]) -> bool:
    """Return whether every worker has answered a request, and every answer is counted."""
    return all(name in answers and _is_counted(answers[name], workers[name]) for name in workers)


def _is_counted(answer: Answer, worker: Progress) -> bool:
    # an answer of an earlier incarnation: its updates were taken out of the model as a whole
    return answer.incarnation != worker.incarnation or answer.sequence <= worker.counted
