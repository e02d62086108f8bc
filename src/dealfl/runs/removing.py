"""Taking a lost phone's part out of the model of a run whose server stands still."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from dealfl.database import require_unused
from dealfl.errors import BadInput, unknown_name
from dealfl.jobs import Document, job_of, selection_of
from dealfl.runs.folder import RunFolder
from dealfl.runs.models import make_learner
from dealfl.runs.status import RunStatus, read_status
from dealfl.server import Ledger, Server
from dealfl.server.selection import Candidate, Selector, make_selector
from dealfl.statistics import Statistics

__all__ = ["Removal", "remove_worker"]


@dataclass(frozen=True, slots=True)
class Removal:
    """What a removal changed."""

    worker: str
    updates: int
    digest_before: str
    digest_after: str
    incarnation: int


class _Unchanged:
    """A selector that selects nobody and keeps the state of another, which it can not read."""

    def __init__(self) -> None:
        self._state = b""

    def select(
        self,
        round_number: int,  # noqa: ARG002
        candidates: Sequence[Candidate],  # noqa: ARG002
        count: int,  # noqa: ARG002
    ) -> list[str]:
        """Select nobody: there is no server to hear them."""
        return []

    def record_reward(self, round_number: int, worker: str, reward: float) -> None:
        """Learn nothing."""

    def remove(self, worker: str) -> None:
        """Leave it in the state: nobody here can read that."""

    def state(self) -> bytes:
        """Return what was found."""
        return self._state

    def restore(self, state: bytes) -> None:
        """Keep what is found."""
        self._state = state


def _selector(document: Document | None) -> Selector:
    """Return the selector of the job, which has to drop the worker, too."""
    if document is None:
        return _Unchanged()
    job = job_of(document)
    return make_selector(job.selector, selection_of(document, job))


def _now_s(status: RunStatus) -> float:
    """Return a time at which an open round stays open: closing it is the server's business."""
    return status.now_s if status.open_round is None else status.open_round.opened_s


def remove_worker(run: RunFolder, worker: str) -> Removal:
    """Take all that a worker has said out of the model, in one transaction."""
    status = read_status(run)
    require_unused(run.ledger)  # a server has the model in memory, and would write it back
    with closing(Ledger(run.ledger)) as ledger:
        known = ledger.workers()
        if worker not in known:
            raise unknown_name("worker", worker, known)
        total = ledger.total()
        if total is None:
            raise BadInput(f"{run.ledger} has no model yet: there is nothing of {worker!r} in it")
        document = run.document()
        empty = make_learner(Statistics.from_bytes(total).schema, document)
        kind: Any = type(empty)
        make = partial(kind, **empty.settings)
        server = Server(status.job, make, ledger, selector=_selector(document))
        server.drain()  # no worker would hear of a round or a version
        before = server.model.digest()
        server.remove(worker, _now_s(status))
        return Removal(
            worker, known[worker].counted, before, server.model.digest(),
            server.workers[worker].incarnation,
        )  # fmt: skip
