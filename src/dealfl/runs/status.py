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
from dealfl.runs.reading import LedgerReader, reading
from dealfl.server.selection import OverPromise

__all__ = [
    "OpenRound",
    "RunStatus",
    "WorkerStatus",
    "read_status",
    "read_worker_rounds",
    "read_workers",
]

_HEARD_WITHIN_S = 180.0  # unless the job says how often workers announce themselves
_MISSED = 3
_WALL_CLOCK_FROM_S = 1e9  # a smaller time is that of a virtual clock
_NEVER_S = -1e17
_NOT_STATED = "not stated"


@dataclass(frozen=True, slots=True)
class OpenRound:
    """The round that goes on."""

    number: int
    opened_s: float
    deadline_s: float
    selected: int
    replied: int


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
    with reading(run.ledger) as ledger:
        return _Look(run, ledger).status()


def read_workers(run: RunFolder) -> list[WorkerStatus]:
    """Return all workers, by name."""
    with reading(run.ledger) as ledger:
        return _Look(run, ledger).workers()


def read_worker_rounds(run: RunFolder, worker: str) -> list[dict[str, Any]]:
    """Return the rounds for which a worker was selected."""
    with reading(run.ledger) as ledger:
        return ledger.named(
            "SELECT round, replied_s, declined, learned, evicted, operations, elapsed_s, "
            "energy_j, reward FROM selections WHERE worker = ? ORDER BY round",
            worker,
        )


_WORKERS = """
SELECT name, device, battery, charging, incarnation, folded, waiting AS examples_waiting,
  held AS examples_held, heard_s, training, busy_until_s, fits, flag,
  (SELECT count(*) FROM updates u WHERE u.worker = w.name AND u.incarnation = w.incarnation
    AND u.delta IS NOT NULL) AS updates_waiting,
  count(s.round) AS selected, count(s.replied_s) AS replied, sum(s.reward) AS reward,
  coalesce(sum(s.energy_j), 0.0) AS energy_j
FROM workers w LEFT JOIN selections s ON s.worker = w.name GROUP BY name ORDER BY name
"""


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
        (latest,) = self._ledger.row(
            "SELECT max(s) FROM (SELECT max(heard_s) AS s FROM workers UNION ALL "
            "SELECT max(opened_s) FROM rounds UNION ALL SELECT max(closed_s) FROM rounds "
            "UNION ALL SELECT max(replied_s) FROM selections)"
        )
        latest_s = 0.0 if latest is None else float(latest)
        return max(latest_s, time.time()) if latest_s >= _WALL_CLOCK_FROM_S else latest_s

    def _setting(self, name: str) -> str:
        found = self._ledger.rows("SELECT value FROM settings WHERE name = ?", name)
        return bytes(found[0][0]).decode() if found else ""

    # -- workers --------------------------------------------------------------------------------

    def workers(self) -> list[WorkerStatus]:
        """Return all workers, by name."""
        return [self._worker(row) for row in self._ledger.named(_WORKERS)]

    def _worker(self, row: dict[str, Any]) -> WorkerStatus:
        state = self._state(row["heard_s"], row.pop("training"), row.pop("busy_until_s"))
        reward, selected = row.pop("reward"), row["selected"]
        changed = {
            "charging": bool(row["charging"]),
            "fits": bool(row["fits"]),
            "heard_s": None if state == "removed" else row["heard_s"],
            "mean_reward": reward / selected if selected else None,
        }
        return WorkerStatus(state=state, **(row | changed))

    def _state(self, heard_s: float, training: int, busy_until_s: float) -> str:
        if heard_s <= _NEVER_S:
            return "removed"
        if training and self._now_s <= busy_until_s:
            return "training"
        return "awake" if self._now_s - heard_s <= self._heard_within_s() else "asleep"

    def _heard_within_s(self) -> float:
        announce_every_s = float(self._job.get("announce_every_s", 0.0))
        return _MISSED * announce_every_s or _HEARD_WITHIN_S

    # -- everything -----------------------------------------------------------------------------

    def status(self) -> RunStatus:
        """Return how the run is doing."""
        workers = self.workers()
        names = ("awake", "training", "asleep", "removed")
        closed = self._ledger.rows(
            "SELECT reason, closed_s - opened_s, digest FROM rounds WHERE closed_s IS NOT NULL "
            "ORDER BY number"
        )
        spent_s = sum(took for _, took, _ in closed)
        reasons = [reason for reason, _, _ in closed]
        learned, evicted, energy_j, replies, reward = self._ledger.row(
            "SELECT coalesce(sum(learned), 0), coalesce(sum(evicted), 0), "
            "coalesce(sum(energy_j), 0), count(replied_s), avg(reward) FROM selections"
        )
        version, version_round, published = self._version()
        asked, pending = self._ledger.row(
            "SELECT count(*), coalesce(sum(published = 0), 0) FROM erasures"
        )
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
            last_round_s=closed[-1][1] if closed else None,
            open_round=self._open_round(),
            converged=self._setting("converged") == "yes",
            workers={name: sum(one.state == name for one in workers) for name in names},
            flagged=sum(bool(one.flag) for one in workers),
            updates_counted=counted,
            updates_waiting=sum(one.updates_waiting for one in workers),
            examples_learned=learned,
            examples_evicted=evicted,
            version=version,
            version_round=version_round,
            published_digest=published,
            round_digest=closed[-1][2] if closed else "",
            erasures=asked,
            erasures_pending=pending,
            energy_j=energy_j,
            energy_source=self._energy_source(),
            replies=replies,
            mean_reward=reward,
            over_promised=self._over_promised(),
            updates_per_s=counted / spent_s if spent_s else None,
            examples_per_s=(learned + evicted) / spent_s if spent_s else None,
            round_durations_s=tuple(took for _, took, _ in closed),
        )  # fmt: skip

    def _over_promised(self) -> str:
        found = self._setting("over_promised")
        return str(msgspec.json.decode(found, type=OverPromise)) if found else ""

    def _open_round(self) -> OpenRound | None:
        found = self._ledger.rows(
            "SELECT number, opened_s, deadline_s, (SELECT count(*) FROM selections "
            "WHERE round = number), (SELECT count(replied_s) FROM selections WHERE round = number) "
            "FROM rounds WHERE closed_s IS NULL"
        )
        return OpenRound(*found[0]) if found else None

    def _version(self) -> tuple[int, int, str]:
        query = "SELECT version, round, digest FROM versions ORDER BY version DESC LIMIT 1"
        found = self._ledger.rows(query)
        return (int(found[0][0]), int(found[0][1]), str(found[0][2])) if found else (0, 0, "")

    def _energy_source(self) -> str:
        """Return how energy is known: what the ledger says; devices of a job are modelled."""
        return self._setting("energy_source") or (
            "modelled" if self._tables.get("devices") else _NOT_STATED
        )
