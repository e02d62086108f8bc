"""The workers of a run: their status and rounds, read from the ledger, and their removal."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from dealfl.errors import BadInput, unknown_name
from dealfl.exact import Statistics
from dealfl.jobs import Document, read_job, read_selector
from dealfl.learners import Learner
from dealfl.runs.folder import RunFolder
from dealfl.runs.models import make_learner
from dealfl.server import (
    Ledger,
    LedgerReader,
    Server,
    WorkerFigures,
)
from dealfl.server.selection import Candidate, Selector
from dealfl.storage import require_unused

_MISSED, _ANNOUNCED_S = 3, 60.0  # announcements of simulated workers
_WALL_CLOCK_FROM_S = 1e9  # smaller times are of a virtual clock


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """The status of a worker in the ledger."""

    name: str
    state: str
    device: str
    battery: float
    charging: bool
    incarnation: int
    updates_counted: int
    updates_waiting: int
    examples_waiting: int
    examples_held: int
    last_heard_s: float | None
    call_by_s: float | None
    flag: str
    fits: bool
    selected: int
    replied: int
    mean_reward: float | None
    energy_j: float


def read_workers(run: RunFolder) -> list[WorkerStatus]:
    """Read the status of all workers."""
    with LedgerReader.open(run.ledger) as ledger:
        return describe_workers(ledger, run.tables(), find_now_s(ledger))


def read_worker_rounds(run: RunFolder, worker: str) -> list[dict[str, Any]]:
    """Read the rounds for which a worker was selected."""
    with LedgerReader.open(run.ledger) as ledger:
        rounds = [dataclasses.asdict(selection) for selection in ledger.selections(worker)]
    return [{key: value for key, value in row.items() if key != "worker"} for row in rounds]


def find_now_s(ledger: LedgerReader) -> float:
    """Return the time of the server's clock: now if it is real, the latest time if virtual."""
    latest_s = ledger.latest_s()
    return latest_s if latest_s < _WALL_CLOCK_FROM_S else max(latest_s, time.time())


def describe_workers(
    ledger: LedgerReader, tables: Mapping[str, Any], now_s: float
) -> list[WorkerStatus]:
    """Return the status of all workers, sorted by name; `tables` are those of the job file."""
    timeout_s = presence_timeout_s(tables, now_s)
    return [
        _describe(figures, find_state(figures.row, now_s, timeout_s))
        for figures in ledger.workers()
    ]


def presence_timeout_s(tables: Mapping[str, Any], now_s: float) -> float:
    """Return after how long a silent worker counts as asleep."""
    announced_s = tables.get("faults", {}).get("announce_every_s", _ANNOUNCED_S)
    default_s = math.inf if now_s >= _WALL_CLOCK_FROM_S else _MISSED * announced_s
    return float(tables.get("job", {}).get("presence_timeout_s", default_s))


class Present(Protocol):
    """What tells whether a worker is awake; times are of the server's clock."""

    @property
    def heard_s(self) -> float | None: ...  # noqa: D102
    @property
    def training(self) -> bool: ...  # noqa: D102
    @property
    def busy_until_s(self) -> float: ...  # noqa: D102
    @property
    def asleep(self) -> bool: ...  # noqa: D102
    @property
    def call_by_s(self) -> float: ...  # noqa: D102


def find_state(worker: Present, now_s: float, timeout_s: float) -> str:
    """Return whether a worker is awake, training, asleep or removed."""
    if worker.heard_s is None:
        return "removed"
    if worker.training and now_s <= worker.busy_until_s and not worker.call_by_s:
        return "training"
    silent = worker.asleep or worker.call_by_s or now_s - worker.heard_s > timeout_s
    return "asleep" if silent else "awake"


def _describe(figures: WorkerFigures, state: str) -> WorkerStatus:
    row, selected = figures.row, figures.selected
    return WorkerStatus(
        name=row.name,
        state=state,
        device=row.device,
        battery=row.battery,
        charging=row.charging,
        incarnation=row.incarnation,
        updates_counted=row.counted,
        updates_waiting=figures.updates_waiting,
        examples_waiting=row.waiting,
        examples_held=row.held,
        last_heard_s=row.heard_s,
        call_by_s=row.call_by_s or None,
        flag=row.flag,
        fits=row.fits,
        selected=selected,
        replied=figures.replied + figures.declined,
        mean_reward=figures.reward / selected if selected else None,
        energy_j=figures.energy_j,
    )


# -- removal ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Removal:
    """The effect of a removal."""

    worker: str
    updates: int
    digest_before: str
    digest_after: str
    incarnation: int
    version: int


class _Unchanged(Selector):
    """A selector that selects no worker and leaves the stored state as it is."""

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:  # noqa: ARG002
        """Return no worker."""
        return []


def _selector(document: Document | None) -> Selector:
    """Return the selector of the job; it must forget the worker too."""
    if document is None:
        return _Unchanged()
    return read_selector(document, read_job(document))


def remove_worker(run: RunFolder, worker: str) -> Removal:
    """Remove all updates of a worker from the model, in one transaction."""
    with LedgerReader.open(run.ledger) as reader:
        open_round, now_s, version = reader.open_round(), find_now_s(reader), reader.last_version()
    require_unused(run.ledger)  # a running server would write its model back
    with closing(Ledger(run.ledger)) as ledger:
        rows = ledger.workers()
        if worker not in rows:
            raise unknown_name("worker", worker, rows)
        total = ledger.reader.total()
        if total is None:
            raise BadInput(f"{run.ledger} has no model yet, so {worker!r} has no part in it")
        document, make = run.document(), _maker(run, total)
        name = str(run.tables().get("job", {}).get("name", ""))
        server = Server(name, make, ledger, selector=_selector(document))
        server.drain()  # open no round and publish no version
        before = server.model.digest()
        server.remove(worker, now_s if open_round is None else open_round.opened_s)  # stays open
        return Removal(
            worker,
            rows[worker].counted,
            before,
            server.model.digest(),
            server.workers[worker].incarnation,
            version.number if version else 0,
        )


def _maker(run: RunFolder, total: Statistics) -> Callable[[], Learner]:
    """Return the function that makes an empty learner of the run."""
    empty = make_learner(total.schema, run.document())
    kind: Any = type(empty)
    return partial(kind, **empty.settings)
