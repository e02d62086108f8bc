"""Erasure requests and the answers of workers.

Every worker answers every request, even if it holds none of the examples. A request is *settled*
when all workers have answered and the updates that remove the erased examples are counted. It is
*outstanding* until a published version reflects it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Answer", "Outstanding", "Request", "is_settled"]


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
        Whether a published version reflects the erasure.
    """

    name: str
    owners: tuple[bytes, ...]
    requested_s: float
    published: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A worker's answer to an erasure request.

    Parameters
    ----------
    examples : int
        Number of examples deleted.
    incarnation : int
        Incarnation of the worker that made the answer.
    sequence : int
        The erasure is in the statistics once all updates up to this sequence are counted.
    """

    examples: int
    incarnation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Outstanding:
    """A request that no published version reflects yet.

    Parameters
    ----------
    request : Request
        The request.
    settled : bool
        Whether all workers have answered and their updates are counted.
    """

    request: Request
    settled: bool


class Progress(Protocol):
    """The progress of a worker's updates on the server."""

    @property
    def incarnation(self) -> int:
        """Current incarnation of the worker."""

    @property
    def counted(self) -> int:
        """Sequence of the last update that was counted."""


def is_settled(answers: Mapping[str, Answer], workers: Mapping[str, Progress]) -> bool:
    """Return whether all workers have answered a request and all answers are counted.

    Parameters
    ----------
    answers : mapping of str to Answer
        Answers by name of the worker.
    workers : mapping of str to Progress
        All known workers by name.

    Returns
    -------
    bool
        True if the current statistics contain no example of the owners.
    """
    return all(name in answers and _is_counted(answers[name], workers[name]) for name in workers)


def _is_counted(answer: Answer, worker: Progress) -> bool:
    # all updates of an earlier incarnation were removed from the model
    return answer.incarnation != worker.incarnation or answer.sequence <= worker.counted
