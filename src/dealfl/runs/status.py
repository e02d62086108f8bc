"""The status of a run, read from its ledger."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from dealfl.jobs import Job
from dealfl.learners import SavedLearner, Statistics
from dealfl.runs.folder import RESULT, RunFolder
from dealfl.runs.status_records import RunStart, RunStatus, WorkerStatus
from dealfl.server import LedgerReader, Selection, Version, WorkerFigures, WorkerRow
from dealfl.server.selection import OverPromise

__all__ = [
    "read_start",
    "read_status",
    "read_worker_rounds",
    "read_workers",
]

_PRESENCE_TIMEOUT_S = 180.0  # unless the job sets it, or announce_every_s
_MISSED = 3
_WALL_CLOCK_FROM_S = 1e9  # smaller times are of a virtual clock
_NOT_STATED = "not stated"


def read_status(run: RunFolder) -> RunStatus:
    """Read the status of a run.

    Parameters
    ----------
    run : RunFolder
        The run; its server can be running.

    Returns
    -------
    RunStatus
        The status.
    """
    with LedgerReader.open(run.ledger) as ledger:
        return _Look(run, ledger).status()


def read_start(run: RunFolder) -> RunStart:
    """Read the status of a run that has not saved its ledger yet.

    Parameters
    ----------
    run : RunFolder
        The run.

    Returns
    -------
    RunStart
        The status.
    """
    document = run.document()
    job = {} if document is None else document.tables.get("job", {})
    return RunStart(ledger=str(run.ledger), job=str(job.get("name", "")), progress=run.progress())


def read_workers(run: RunFolder) -> list[WorkerStatus]:
    """Read the status of all workers.

    Parameters
    ----------
    run : RunFolder
        The run; its server can be running.

    Returns
    -------
    list of WorkerStatus
        Workers, sorted by name.
    """
    with LedgerReader.open(run.ledger) as ledger:
        return _Look(run, ledger).workers()


def read_worker_rounds(run: RunFolder, worker: str) -> list[dict[str, Any]]:
    """Read the rounds for which a worker was selected.

    Parameters
    ----------
    run : RunFolder
        The run; its server can be running.
    worker : str
        Name of the worker.

    Returns
    -------
    list of dict
        One entry for each round, for JSON.
    """
    with LedgerReader.open(run.ledger) as ledger:
        return [_without_worker(selection) for selection in ledger.selections(worker)]


def _without_worker(selection: Selection) -> dict[str, Any]:
    plain = dataclasses.asdict(selection)
    del plain["worker"]
    return plain


class _Look:
    """A snapshot of a ledger."""

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
        """Return all workers, sorted by name."""
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

    # -- the run --------------------------------------------------------------------------------

    def status(self) -> RunStatus:
        """Return the status of the run."""
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
            statistics_digest=_statistics_digest(self._ledger.total()),
            state=_state(self._run),
            progress=self._run.progress(),
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
        """Return the source of the energy: that of the ledger, else modelled for [devices]."""
        return self._setting("energy_source") or (
            "modelled" if self._tables.get("devices") else _NOT_STATED
        )


@lru_cache(maxsize=2)  # hash a large model once, not at every look
def _statistics_digest(total: bytes | None) -> str:
    if total is None:
        return ""
    return Statistics.from_bytes(total, max_bytes=SavedLearner.MAX_BYTES).digest()


def _state(run: RunFolder) -> str:
    progress = run.progress()
    if progress is not None:
        return "stopped" if progress.stopped else "running"
    return "finished" if (run.path / RESULT).is_file() else ""
