"""Rules of erasure: owners as keyed hashes, requests and answers, and the release of versions.

Every worker answers every request, even if it holds none of the examples. A request is *settled*
when all workers have answered and the updates that remove the erased examples are counted. It is
*outstanding* until a published version reflects it. Ledger and journal store the rows.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "Answer",
    "Outstanding",
    "ReleaseRule",
    "Request",
    "is_settled",
    "list_suppressed",
    "owner_hash",
    "plain_name",
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


def list_suppressed(requests: Iterable[Request]) -> tuple[bytes, ...]:
    """Return all owners in some requests.

    Parameters
    ----------
    requests : iterable of Request
        Erasure requests.

    Returns
    -------
    tuple of bytes
        Keyed hashes, sorted and without duplicates.
    """
    return tuple(sorted({owner for request in requests for owner in request.owners}))


@dataclass(frozen=True, slots=True)
class ReleaseRule:
    """Hold versions back until enough erasures are settled, so that none reveals a single person.

    Parameters
    ----------
    batch : int
        Minimum number of outstanding erasures for a release; 1 releases at once.
    deadline_s : float
        Maximum time that an erasure holds versions back, in seconds.

    Examples
    --------
    >>> first = Outstanding(Request("r1", (b"hash",), requested_s=0.0), settled=True)
    >>> rule = ReleaseRule(batch=2, deadline_s=3600.0)
    >>> rule.release_at_s([first]), rule.release_at_s([first, first]), rule.release_at_s([])
    (3600.0, -inf, -inf)
    """

    batch: int
    deadline_s: float

    def release_at_s(self, outstanding: Sequence[Outstanding]) -> float:
        """Return the time at which the next version may be published.

        Parameters
        ----------
        outstanding : sequence of Outstanding
            Requests that no published version reflects.

        Returns
        -------
        float
            Time in seconds of the server's clock; −∞ if a version may be published now.
        """
        enough = len(outstanding) >= self.batch and all(one.settled for one in outstanding)
        if not outstanding or self.batch == 1 or enough:
            return -math.inf
        return min(one.request.requested_s for one in outstanding) + self.deadline_s
