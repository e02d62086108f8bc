"""How a run is doing, from its ledger alone."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dealfl.jobs import Job
from dealfl.runs.folder import RunFolder
from dealfl.server import LedgerReader, OpenRound, Selection, Version, WorkerFigures, WorkerRow
from dealfl.server.selection import OverPromise

__all__ = [
    "OpenRound",
    "RunStatus",
    "WorkerStatus",
    "read_status",
    "read_worker_rounds",
    "read_workers",
]

_PRESENCE_TIMEOUT_S = 180.0  # unless the job states it, or announce_every_s
_MISSED = 3
_WALL_CLOCK_FROM_S = 1e9  # a smaller time is that of a virtual clock
_NOT_STATED = "not stated"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker as the ledger knows it; `state` is awake, training, asleep or removed."""

    name: str
    state: str
    device: str
    battery: float
    charging: bool
    incarnation: int
    folded: int
    updates_waiting: int
    examples_waiting: int
    examples_held: int
    heard_s: float | None
    flag: str
    fits: bool
    selected: int
    replied: int
    mean_reward: float | None
    energy_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A run at one moment; times are of the server's clock, real or virtual."""

    ledger: str
    job: str
    now_s: float
    rounds_closed: int
    rounds_asked: int | None
    rounds_by_reason: dict[str, int]
    last_reason: str
    round_s: float
    last_round_s: float | None
    open_round: OpenRound | None
    converged: bool
    workers: dict[str, int]
    flagged: int
    updates_counted: int
    updates_waiting: int
    examples_learned: int
    examples_evicted: int
    version: int
    version_round: int
    published_digest: str
    round_digest: str
    erasures: int
    erasures_pending: int
    energy_j: float
    energy_source: str
    replies: int
    mean_reward: float | None
    over_promised: str
    updates_per_s: float | None
    examples_per_s: float | None
    round_durations_s: tuple[float, ...] = field(repr=False, default=())

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        plain = dataclasses.asdict(self)
        del plain["round_durations_s"]
        return plain


def read_status(run: RunFolder) -> RunStatus:
    """Return how a run is doing."""
    with LedgerReader.open(run.ledger) as ledger:
        return _Look(run, ledger).status()


def read_workers(run: RunFolder) -> list[WorkerStatus]:
    """Return all workers, by name."""
    with LedgerReader.open(run.ledger) as ledger:
        return _Look(run, ledger).workers()


def read_worker_rounds(run: RunFolder, worker: str) -> list[dict[str, Any]]:
    """Return the rounds for which a worker was selected."""
    with LedgerReader.open(run.ledger) as ledger:
        return [_without_worker(selection) for selection in ledger.selections(worker)]


def _without_worker(selection: Selection) -> dict[str, Any]:
    plain = dataclasses.asdict(selection)
    del plain["worker"]
    return plain


class _Look:
    """One look at a ledger."""

    def __init__(self, run: RunFolder, ledger: LedgerReader) -> None:
        self._run, self._ledger = run, ledger
        document = run.document()
        self._tables = {} if document is None else document.tables
        job = self._tables.get("job")
        self._job = job if isinstance(job, Mapping) else {}
        self._now_s = self._now()

    def _now(self) -> float:
        latest_s = self._ledger.latest_s()
        return max(latest_s, time.time()) if latest_s >= _WALL_CLOCK_FROM_S else latest_s

    def _setting(self, name: str) -> str:
        return self._ledger.setting(name).decode()

    # -- workers --------------------------------------------------------------------------------

    def workers(self) -> list[WorkerStatus]:
        """Return all workers, by name."""
        return [self._worker(figures) for figures in self._ledger.workers()]

    def _worker(self, figures: WorkerFigures) -> WorkerStatus:
        row = figures.row
        return WorkerStatus(
            name=row.name,
            state=self._state(row),
            device=row.device,
            battery=row.battery,
            charging=row.charging,
            incarnation=row.incarnation,
            folded=row.counted,
            updates_waiting=figures.updates_waiting,
            examples_waiting=row.waiting,
            examples_held=row.held,
            heard_s=row.heard_s,
            flag=row.flag,
            fits=row.fits,
            selected=figures.selected,
            replied=figures.replied + figures.declined,
            mean_reward=figures.reward / figures.selected if figures.selected else None,
            energy_j=figures.energy_j,
        )

    def _state(self, row: WorkerRow) -> str:
        if row.heard_s is None:
            return "removed"
        if row.training and self._now_s <= row.busy_until_s:
            return "training"
        return "awake" if self._now_s - row.heard_s <= self._presence_timeout_s() else "asleep"

    def _presence_timeout_s(self) -> float:
        stated = float(self._job.get("presence_timeout_s", 0.0))
        announced = _MISSED * float(self._job.get("announce_every_s", 0.0))
        return stated or announced or _PRESENCE_TIMEOUT_S

    # -- everything -----------------------------------------------------------------------------

    def status(self) -> RunStatus:
        """Return how the run is doing."""
        workers = self.workers()
        names = ("awake", "training", "asleep", "removed")
        closed, replies = self._ledger.closed_rounds(), self._ledger.replies()
        spent_s = sum(one.duration_s for one in closed)
        reasons = [one.reason for one in closed]
        version = self._ledger.last_version() or Version(0, 0, "", 0.0)
        erasures = self._ledger.erasures()
        counted = sum(one.folded for one in workers)
        return RunStatus(
            ledger=str(self._run.ledger),
            job=str(self._job.get("name", "")),
            now_s=self._now_s,
            rounds_closed=len(closed),
            rounds_asked=self._job.get("rounds", Job().terms.rounds) if self._job else None,
            rounds_by_reason={reason: reasons.count(reason) for reason in sorted(set(reasons))},
            last_reason=reasons[-1] if reasons else "",
            round_s=spent_s,
            last_round_s=closed[-1].duration_s if closed else None,
            open_round=self._ledger.open_round(),
            converged=self._setting("converged") == "yes",
            workers={name: sum(one.state == name for one in workers) for name in names},
            flagged=sum(bool(one.flag) for one in workers),
            updates_counted=counted,
            updates_waiting=sum(one.updates_waiting for one in workers),
            examples_learned=replies.learned,
            examples_evicted=replies.evicted,
            version=version.number,
            version_round=version.round,
            published_digest=version.digest,
            round_digest=closed[-1].digest if closed else "",
            erasures=len(erasures),
            erasures_pending=sum(not one.published for one in erasures),
            energy_j=replies.energy_j,
            energy_source=self._energy_source(),
            replies=replies.count,
            mean_reward=replies.mean_reward,
            over_promised=self._over_promised(),
            updates_per_s=counted / spent_s if spent_s else None,
            examples_per_s=(replies.learned + replies.evicted) / spent_s if spent_s else None,
            round_durations_s=tuple(one.duration_s for one in closed),
        )  # fmt: skip

    def _over_promised(self) -> str:
        found = self._setting("over_promised")
        return str(msgspec.json.decode(found, type=OverPromise)) if found else ""

    def _energy_source(self) -> str:
        """Return how energy is known: what the ledger says; devices of a job are modelled."""
        return self._setting("energy_source") or (
            "modelled" if self._tables.get("devices") else _NOT_STATED
        )
