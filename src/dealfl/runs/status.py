"""The status of a run, read from the ledger, and as metrics for Prometheus."""

from __future__ import annotations

import dataclasses
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from dealfl.errors import DealError
from dealfl.jobs import Job
from dealfl.runs.folder import RESULT, RunFolder
from dealfl.runs.result import RunProgress
from dealfl.runs.workers import describe_workers, find_now_s
from dealfl.server import DURATIONS_S, LedgerReader, OpenRound, PastRounds, Version

_MIN_FREE_BYTES = 1 << 18  # of a disk that is not full
_ENOUGH_FREE_BYTES = 1 << 26  # for any run
_ENOUGH_ROUNDS = 10  # whose writing fits
_STATES = ("awake", "training", "asleep", "removed")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """The status of a run that has not saved its ledger yet."""

    ledger: str
    job: str
    progress: RunProgress | None
    state: str = "starting"

    def as_dict(self) -> dict[str, Any]:
        """Return the status as JSON values by name, without the duration of each round."""
        plain = dataclasses.asdict(self)
        plain.pop("round_durations_s", None)
        plain.pop("past_rounds", None)
        return plain


@dataclass(frozen=True, slots=True)
class PrivacyStatus:
    """The state of sums under masks."""

    keyholder: str
    key: str  # name of its public key
    cohort: int  # workers with fresh examples that an opening needs
    openings: int
    smallest: int  # number of workers in the smallest opening
    waiting_since_s: float | None  # for an answer of the keyholder
    suspects: tuple[str, ...]
    barred: tuple[str, ...]
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentStatus:
    """What a region has reported to its parent."""

    incarnation: int  # 0 before the parent has welcomed it
    updates: int
    posted_digest: str
    version: int  # of the parent
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus(RunStart):
    """The status of a run; times are in seconds of the server's clock, real or virtual."""

    now_s: float
    rounds_closed: int
    rounds_planned: int | None
    rounds_by_reason: dict[str, int]
    last_reason: str
    round_s: float
    last_round_s: float | None
    open_round: OpenRound | None
    converged: bool
    workers: dict[str, int]
    flagged: int
    problem: str  # why the server can write nothing now
    catching_up: int  # workers whose sums may be older than a restore of the ledger
    next_call_s: float | None
    updates_counted: int
    updates_waiting: int
    examples_learned: int
    examples_evicted: int
    version: int
    version_round: int
    published_digest: str
    round_digest: str
    statistics_digest: str
    erasures: int
    erasures_pending: int
    energy_j: float
    energy_source: str
    replies: int
    mean_reward: float | None
    unmet_guarantees: str
    updates_per_s: float | None
    examples_per_s: float | None
    ended: str = ""
    privacy: PrivacyStatus | None = None  # None: the server sees every update
    whole_energy_j: float | None = None
    round_durations_s: tuple[float, ...] = field(repr=False, default=())
    past_rounds: tuple[PastRounds, ...] = field(repr=False, default=())  # before those
    regions: int = 0  # servers among the workers
    devices: int = 0  # behind those regions
    parent: ParentStatus | None = None  # of a region


class _Ending(msgspec.Struct):
    """What result.json says of a scheme."""

    ended: str
    energy_j: float


class _Endings(msgspec.Struct):
    """What result.json says of all schemes; that of the job is the first."""

    outcomes: dict[str, _Ending]


def _describe_privacy(ledger: LedgerReader) -> PrivacyStatus | None:
    masks = ledger.masks()
    if not masks.keyholder:
        return None
    return PrivacyStatus(
        masks.name,
        masks.keyholder,
        masks.cohort,
        masks.number,
        masks.smallest,
        masks.asked_s if masks.request is not None else None,
        masks.suspects,
        masks.barred,
        masks.problem,
    )


def read_start(run: RunFolder) -> RunStart:
    """Read the status of a run that has not saved its ledger yet."""
    name = str(run.tables().get("job", {}).get("name", ""))
    return RunStart(ledger=str(run.ledger), job=name, progress=run.progress())


def read_status(run: RunFolder) -> RunStatus:
    """Read the status of a run."""
    with LedgerReader.open(run.ledger) as ledger:
        return _describe(run, ledger)


def _describe(run: RunFolder, ledger: LedgerReader) -> RunStatus:
    tables, progress, now_s = run.tables(), run.progress(), find_now_s(ledger)
    job: dict[str, Any] = tables.get("job", {})
    workers = describe_workers(ledger, tables, now_s)
    closed, replies = ledger.closed_rounds(), ledger.replies()
    erasures, erasures_pending = ledger.count_requests()
    past = tuple(ledger.past_rounds())
    reasons = Counter(row.reason for row in closed)
    for old in past:
        reasons[old.reason] += old.rounds
    durations_s = tuple(row.duration_s for row in closed)
    spent_s = sum(old.duration_s for old in past) + sum(durations_s)
    version = ledger.last_version() or Version(0, 0, "", 0.0)
    counted = sum(worker.updates_counted for worker in workers)
    kept = ledger.state()
    state = "finished" if (run.path / RESULT).is_file() else ""
    if progress is not None:
        state = "stopped" if progress.stopped else "running"
    ending = _read_ending(run) if state == "finished" else None
    return RunStatus(
        ledger=str(run.ledger),
        job=str(job.get("name", "")),
        state=state,
        progress=progress,
        now_s=now_s,
        rounds_closed=reasons.total(),
        rounds_planned=job.get("rounds", Job().rules.rounds) if job else None,
        rounds_by_reason=dict(sorted(reasons.items())),
        last_reason=closed[-1].reason if closed else "",
        round_s=spent_s,
        last_round_s=durations_s[-1] if closed else None,
        open_round=ledger.open_round(),
        converged=kept.converged,
        workers={name: sum(worker.state == name for worker in workers) for name in _STATES},
        flagged=sum(bool(worker.flag) for worker in workers),
        problem="" if state == "finished" else find_problem(run),
        privacy=_describe_privacy(ledger),
        catching_up=sum(worker.row.behind > 0 for worker in ledger.workers()),
        updates_counted=counted,
        next_call_s=min((worker.call_by_s for worker in workers if worker.call_by_s), default=None),
        updates_waiting=sum(worker.updates_waiting for worker in workers),
        examples_learned=replies.learned,
        examples_evicted=replies.evicted,
        version=version.number,
        version_round=version.round,
        published_digest=version.digest,
        round_digest=closed[-1].digest if closed else "",
        statistics_digest=kept.digest,
        erasures=erasures,
        erasures_pending=erasures_pending,
        energy_j=replies.energy_j,
        energy_source="modelled" if tables.get("devices") else "not stated",
        replies=replies.count,
        mean_reward=replies.mean_reward,
        unmet_guarantees=str(kept.over_promised or ""),
        updates_per_s=counted / spent_s if spent_s else None,
        examples_per_s=(replies.learned + replies.evicted) / spent_s if spent_s else None,
        round_durations_s=durations_s,
        past_rounds=past,
        **_describe_tree(ledger),
        ended="" if ending is None else ending.ended,
        whole_energy_j=None if ending is None else ending.energy_j,
    )


def _describe_tree(ledger: LedgerReader) -> dict[str, Any]:
    """Return what is known of regions, and of the parent of a region."""
    rows = [figures.row for figures in ledger.workers()]
    behind = [row.devices for row in rows if row.devices is not None and row.heard_s is not None]
    uplink = ledger.uplink()
    parent = None
    if uplink is not None:
        parent = ParentStatus(
            incarnation=uplink.incarnation,
            updates=uplink.sequence,
            posted_digest=uplink.posted,
            version=uplink.version,
            problem=uplink.refused,
        )
    return {"regions": len(behind), "devices": sum(behind), "parent": parent}


def find_problem(run: RunFolder) -> str:
    """Return why a server cannot write its ledger, now or soon; empty if there is space.

    A round writes at most as much as the ledger holds.
    """
    free = shutil.disk_usage(run.ledger.parent).free
    if free < _MIN_FREE_BYTES:
        return f"the disk of {run.ledger} is full; free disk space"
    ledger = run.ledger
    files = [ledger, ledger.with_name(ledger.name + "-wal")]
    written = sum(file.stat().st_size for file in files if file.exists())
    if free < min(_ENOUGH_ROUNDS * written, _ENOUGH_FREE_BYTES):
        return f"the disk of {ledger} has {free / 1e6:,.1f} MB left; free disk space"
    return ""


def _read_ending(run: RunFolder) -> _Ending | None:
    with suppress(OSError, msgspec.MsgspecError):  # it may be damaged, or of an older version
        record = msgspec.json.decode((run.path / RESULT).read_bytes(), type=_Endings)
        return next(iter(record.outcomes.values()), None)
    return None


if TYPE_CHECKING:
    from prometheus_client.core import Metric


_COUNTERS: tuple[tuple[str, str, Callable[[RunStatus], float]], ...] = (
    ("updates", "Updates counted", lambda s: s.updates_counted),
    ("examples_learned", "Examples learned by workers", lambda s: s.examples_learned),
    ("examples_evicted", "Examples evicted by workers", lambda s: s.examples_evicted),
    ("erasures", "Erasures requested", lambda s: s.erasures),
)
_GAUGES: tuple[tuple[str, str, Callable[[RunStatus], float]], ...] = (
    ("updates_waiting", "Updates recorded and not counted yet", lambda s: s.updates_waiting),
    ("erasures_pending", "Erasures not published in a version yet", lambda s: s.erasures_pending),
    ("workers_flagged", "Workers with a flag", lambda s: s.flagged),
    ("round_open", "Whether a round is open", lambda s: float(s.open_round is not None)),
    ("converged", "Whether the model has converged", lambda s: float(s.converged)),
    ("model_version", "Last published version", lambda s: s.version),
    ("selection_reward", "Mean reward of a selected worker", lambda s: s.mean_reward or 0.0),
)


class Collector:
    """The metrics of a run; workers are counted, never named."""

    def __init__(self, read: Callable[[], RunStatus]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        """Return the current metrics."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            InfoMetricFamily,
        )

        status = self._read()
        for name, text, value in _COUNTERS:
            yield CounterMetricFamily(f"dealfl_{name}", text, value=value(status))
        for name, text, value in _GAUGES:
            yield GaugeMetricFamily(f"dealfl_{name}", text, value=value(status))
        rounds = CounterMetricFamily("dealfl_rounds", "Rounds closed, by reason", labels=["reason"])
        for reason, count in status.rounds_by_reason.items():
            rounds.add_metric([reason], count)
        yield rounds
        workers = GaugeMetricFamily("dealfl_workers", "Workers, by state", labels=["state"])
        for state, count in status.workers.items():
            workers.add_metric([state], count)
        yield workers
        energy = CounterMetricFamily(
            "dealfl_energy_joules", "Energy reported by workers", labels=["source"]
        )
        energy.add_metric([status.energy_source], status.energy_j)
        yield energy
        if status.round_durations_s or status.past_rounds:  # an operator's answer has none
            durations = HistogramMetricFamily("dealfl_round_seconds", "Duration of rounds")
            durations.add_metric([], _buckets(status), status.round_s)
            yield durations
        about = {"digest": status.published_digest, "round": str(status.version_round)}
        yield InfoMetricFamily("dealfl_model", "Last published model", value=about)


def _buckets(status: RunStatus) -> list[tuple[str, float]]:
    """Return the cumulative number of rounds for each bucket of durations."""
    buckets: list[tuple[str, float]] = []
    for limit in DURATIONS_S:
        past = sum(old.rounds for old in status.past_rounds if old.within_s <= limit)
        buckets.append((str(limit), past + sum(own <= limit for own in status.round_durations_s)))
    return [*buckets, ("+Inf", status.rounds_closed)]


class Served:
    """A running metrics server."""

    def __init__(self, server: Any, thread: Any) -> None:  # noqa: ANN401
        self._server, self._thread = server, thread

    @property
    def address(self) -> str:
        """The URL of the metrics."""
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}/metrics"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(read: Callable[[], RunStatus], port: int = 0, host: str = "127.0.0.1") -> Served:
    """Serve the metrics of a run over HTTP, in the background; `read` returns its status."""
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise DealError(
            "prometheus-client is not installed; install it with: pip install 'dealfl[metrics]'"
        ) from None
    read()  # report an unreadable ledger now, not at the first request
    registry = CollectorRegistry()
    registry.register(Collector(read))
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except (OSError, OverflowError) as error:
        raise DealError(f"cannot listen on {host}:{port}: {error}; use another --port") from None
    return Served(server, thread)
