"""Removal of a worker from the model of a run whose server is not running."""

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
from dealfl.runs.status import read_status
from dealfl.runs.status_records import RunStatus
from dealfl.server import Ledger, Server
from dealfl.server.selection import Candidate, Selector, make_selector
from dealfl.statistics import Statistics

__all__ = ["Removal", "remove_worker"]


@dataclass(frozen=True, slots=True)
class Removal:
    """The effect of a removal.

    Parameters
    ----------
    worker : str
        Name of the worker.
    updates : int
        Number of its updates that were removed from the model.
    digest_before, digest_after : str
        Digests of the model.
    incarnation : int
        Incarnation with which the worker can return.
    """

    worker: str
    updates: int
    digest_before: str
    digest_after: str
    incarnation: int


class _Unchanged(Selector):
    """A selector that selects no worker and leaves the stored state as it is."""

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:  # noqa: ARG002
        """Return no worker."""
        return []


def _selector(document: Document | None) -> Selector:
    """Return the selector of the job; it must forget the worker too."""
    if document is None:
        return _Unchanged()
    job = job_of(document)
    return make_selector(job.selector, selection_of(document, job))


def _now_s(status: RunStatus) -> float:
    """Return a time at which an open round stays open."""
    return status.now_s if status.open_round is None else status.open_round.opened_s


def remove_worker(run: RunFolder, worker: str) -> Removal:
    """Remove all updates of a worker from the model, in one transaction.

    Parameters
    ----------
    run : RunFolder
        Run whose server is not running.
    worker : str
        Name of the worker.

    Returns
    -------
    Removal
        Number of updates and digests.

    Raises
    ------
    UnknownName
        If there is no worker of that name.
    BadInput
        If the ledger has no model, or a server uses it.
    """
    status = read_status(run)
    require_unused(run.ledger)  # a running server would write its model back
    with closing(Ledger(run.ledger)) as ledger:
        known = ledger.workers()
        if worker not in known:
            raise unknown_name("worker", worker, known)
        total = ledger.total()
        if total is None:
            raise BadInput(f"{run.ledger} has no model yet, so {worker!r} has no part in it")
        document = run.document()
        empty = make_learner(Statistics.from_bytes(total).schema, document)
        kind: Any = type(empty)
        make = partial(kind, **empty.settings)
        server = Server(status.job, make, ledger, selector=_selector(document))
        server.drain()  # open no round and publish no version
        before = server.model.digest()
        server.remove(worker, _now_s(status))
        return Removal(
            worker, known[worker].counted, before, server.model.digest(),
            server.workers[worker].incarnation,
        )  # fmt: skip
