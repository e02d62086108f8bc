"""What changed in a run since an earlier look: for pages that look again every second.

A server answers with the workers that changed, not with all. A folder is read as a whole, in one
short transaction: an open reader delays the checkpoint that removes erased bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from dealfl.errors import BadInput
from dealfl.jobs import Job
from dealfl.runs.erasures import RequestStatus, describe_erasures, describe_queued
from dealfl.runs.folder import RESULT, RunFolder
from dealfl.runs.result import RunProgress
from dealfl.runs.status import find_problem
from dealfl.runs.workers import find_now_s, presence_timeout_s
from dealfl.server import ChangeLog, LedgerReader, RoundHistory, Version, WorkerFigures

_AT_ONCE = 1_000  # workers in one answer to who knows none yet: none holds the server up for long
_LATER = 100  # in one of the following answers; if more have changed, the next ones have them
_REVISED = 10  # last rounds, which late replies can change
_REDELIVERED = 3  # last versions, which can be delivered
_REQUESTS = 200  # last settled requests of erasure
_MISSING = 50  # names of workers that have not answered a request
_PENDING_S = 2.0  # how long the answers to open requests are not counted again
_LOG_BYTES = 20_000
_LOG_LINES = 200


class WorkerLine(msgspec.Struct, frozen=True, array_like=True):
    """A worker as a page shows it; times are of the server's clock."""

    name: str
    device: str
    battery: float
    charging: bool
    capacity_j: float  # 0 if unknown
    incarnation: int
    counted: int  # updates
    updates_waiting: int
    waiting: int  # examples
    held: int
    heard_s: float | None
    training: bool
    busy_until_s: float
    asleep: bool
    call_by_s: float
    fits: bool
    flag: str
    spent_j: float  # since the start of the current 24 hours of the energy budget
    spent_since_s: float
    learned: int
    evicted: int
    selected: int
    replied: int
    declined: int
    reward: float
    energy_j: float
    last_declined: str

    @classmethod
    def of(cls, figures: WorkerFigures) -> WorkerLine:
        """Return the line of a worker in the ledger."""
        row = figures.row
        return cls(
            name=row.name,
            device=row.device,
            battery=row.battery,
            charging=row.charging,
            capacity_j=row.capacity_j,
            incarnation=row.incarnation,
            counted=row.counted,
            updates_waiting=figures.updates_waiting,
            waiting=row.waiting,
            held=row.held,
            heard_s=row.heard_s,
            training=row.training,
            busy_until_s=row.busy_until_s,
            asleep=row.asleep,
            call_by_s=row.call_by_s,
            fits=row.fits,
            flag=row.flag,
            spent_j=row.spent_j,
            spent_since_s=row.spent_since_s,
            learned=row.learned,
            evicted=row.evicted,
            selected=figures.selected,
            replied=figures.replied,
            declined=figures.declined,
            reward=figures.reward,
            energy_j=figures.energy_j,
            last_declined=figures.last_declined,
        )


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since an earlier look, and what is short enough to be sent each time."""

    since: str  # for the next question
    whole: bool  # what was known before is void
    more: bool = False  # who asks does not know all workers yet: ask again at once
    now_s: float
    timeout_s: float | None  # of the presence of a worker; None: no limit
    job: str
    job_text: str = ""  # with `whole` only
    state: str = ""  # starting, running, stopped, finished; empty for a server
    progress: RunProgress | None = None
    rounds_planned: int | None = None
    rounds_closed: int = 0
    converged: bool = False
    unmet_guarantees: str = ""
    problem: str = ""
    digest: str = ""  # of the statistics
    energy_source: str = "not stated"
    workers: list[WorkerLine] = []
    rounds: list[RoundHistory] = []
    versions: list[Version] = []
    erasures: list[RequestStatus] = []
    log: list[str] = []


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """What was seen: of which process, and up to where."""

    process: str = ""
    worker: int = 0
    round: int = 0
    version: int = 0
    shown: int = 0  # erasure requests in a delivered version
    log: int = -1  # position in the file
    until: int = 0  # all workers are known when this change was seen

    @classmethod
    def read(cls, text: str, process: str) -> _Cursor:
        """Return the cursor of a question; that of another process is a new one."""
        if not text:
            return cls(process)
        try:
            cursor = msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise BadInput(f"since is {text!r}, which is no answer to changes: {error}") from None
        return cursor if cursor.process == process else cls(process)


class ChangesAnswer:
    """Answers the verb `changes` of a running server."""

    def __init__(
        self, run: RunFolder, changed: ChangeLog, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._changed, self._clock = run, changed, clock
        self._tables = run.tables()  # a server's job does not change
        self._pending: tuple[float, list[RequestStatus]] = (-_PENDING_S, [])

    def __call__(self, since: str = "") -> Any:  # noqa: ANN401 - JSON
        """Return what changed."""
        cursor = _Cursor.read(str(since), self._changed.id)
        is_first = cursor.worker == 0
        until = self._changed.last if is_first else cursor.until
        most = _AT_ONCE if cursor.worker < until else _LATER
        names, worker = self._changed.since(cursor.worker, most)
        lines, position = read_log(self._run.path / "log.jsonl", cursor.log)
        with LedgerReader.open(self._run.ledger) as ledger:
            _, shown = ledger.count_erasures()
            rounds = ledger.round_history(max(cursor.round - _REVISED, 0))
            versions = ledger.versions(max(cursor.version - _REDELIVERED, 0))
            after = _Cursor(
                self._changed.id,
                worker,
                max((row.number for row in rounds), default=cursor.round),
                max((version.number for version in versions), default=cursor.version),
                shown,
                position,
                until,
            )
            changes = Changes(
                since=msgspec.json.encode(after).decode(),
                whole=is_first,
                more=worker < until,
                workers=[WorkerLine.of(figures) for figures in ledger.workers(names)],
                rounds=rounds,
                versions=versions,
                erasures=self._erasures(ledger, cursor.shown, shown),
                log=lines,
                job_text=self._run.job_text() if is_first else "",
                **_describe(self._run, ledger, self._tables, time.time()),
            )
        return msgspec.to_builtins(changes)

    def _erasures(self, ledger: LedgerReader, seen: int, shown: int) -> list[RequestStatus]:
        """Return the requests that were open at the last look; others change no more."""
        if seen < shown:
            names = ledger.requests_after(seen)[-_REQUESTS:]
            settled = describe_erasures(ledger, {}, names)
            return [status for status in settled if status.published] + self._open(ledger, shown)
        return self._open(ledger, shown)

    def _open(self, ledger: LedgerReader, shown: int) -> list[RequestStatus]:
        """Return the open requests; counting their answers takes a while with many workers."""
        now_s, (counted_s, pending) = self._clock(), self._pending
        names = ledger.requests_after(shown)
        if now_s - counted_s < _PENDING_S and names == [status.name for status in pending]:
            return pending
        heard_s = ledger.heard_s() if names else {}
        pending = [shorten_missing(each) for each in describe_erasures(ledger, heard_s, names)]
        self._pending = (now_s, pending)
        return pending


def shorten_missing(status: RequestStatus) -> RequestStatus:
    """Return a request with a few of the workers that have not answered."""
    missing = status.outstanding[:_MISSING]
    heard_s = status.heard_s or {}
    few = {name: heard_s[name] for name in missing if name in heard_s}
    return replace(status, outstanding=missing, heard_s=few)


def read_changes(run: RunFolder, settled: Mapping[str, RequestStatus] | None = None) -> Changes:
    """Read a run in a folder as a whole, also one that has not saved its ledger yet.

    `settled` are requests of erasure that an earlier look has found published.
    """
    if not run.ledger.is_file():
        return read_beginning(run)
    with LedgerReader.open(run.ledger) as ledger:
        common = _describe(run, ledger, run.tables(), find_now_s(ledger))
        figures = ledger.workers()
        rounds, versions = ledger.round_history(), ledger.versions()
        heard_s = {each.row.name: each.row.heard_s for each in figures}
        known, names = settled or {}, ledger.requests_after(0)[-_REQUESTS:]
        new = describe_erasures(ledger, heard_s, [name for name in names if name not in known])
        recorded = [*(known[name] for name in names if name in known), *new]
    queued = describe_queued(run, heard_s, recorded)
    return Changes(
        since="",
        whole=True,
        workers=[WorkerLine.of(each) for each in figures],
        rounds=rounds,
        versions=versions,
        erasures=[shorten_missing(each) for each in recorded + queued],
        log=read_log(run.path / "log.jsonl")[0],
        job_text=run.job_text(),
        **common,
    )


def read_beginning(run: RunFolder) -> Changes:
    """Read a run without a ledger."""
    if not run.path.is_dir():
        raise BadInput(f"{run.path} no longer exists; was the run deleted or moved?")
    return Changes(
        since="",
        whole=True,
        now_s=0.0,
        timeout_s=None,
        job=str(run.tables().get("job", {}).get("name", "")) or run.path.name,
        job_text=run.job_text(),
        state="starting",
        progress=run.progress(),
        log=read_log(run.path / "log.jsonl")[0],
    )


def _describe(
    run: RunFolder, ledger: LedgerReader, tables: Mapping[str, Any], now_s: float
) -> dict[str, Any]:
    """Return what is read each time."""
    progress = run.progress()
    job: Mapping[str, Any] = tables.get("job", {})
    kept, state = ledger.state(), "finished" if (run.path / RESULT).is_file() else ""
    if progress is not None:
        state = "stopped" if progress.stopped else "running"
    timeout_s = presence_timeout_s(tables, now_s)
    return {
        "now_s": now_s,
        "timeout_s": None if timeout_s == float("inf") else timeout_s,
        "job": str(job.get("name", "")) or run.path.name,
        "state": state,
        "progress": progress,
        "rounds_planned": job.get("rounds", Job().rules.rounds) if job else None,
        "rounds_closed": ledger.count_closed(),
        "converged": kept.converged,
        "unmet_guarantees": str(kept.over_promised or ""),
        "problem": "" if state == "finished" else find_problem(run),
        "digest": kept.digest,
        "energy_source": "modelled" if tables.get("devices") else "not stated",
    }


def read_log(path: Path, position: int = -1) -> tuple[list[str], int]:
    """Return the lines of a log after a position, at most the last ones, and the new position."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            start = position if 0 <= position <= end else 0  # a rotated log begins again
            start = max(start, end - _LOG_BYTES)
            file.seek(start)
            content = file.read(_LOG_BYTES)
    except OSError:
        return [], -1
    whole = content[: content.rfind(b"\n") + 1]
    lines = whole.decode("utf-8", "replace").splitlines()
    if start and start != position:
        lines = lines[1:]  # its beginning is cut
    return _last(lines), start + len(whole)


def _last(lines: Sequence[str]) -> list[str]:
    return list(lines[-_LOG_LINES:])
