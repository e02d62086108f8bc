"""What the pages show: the run as it was at the last look, and what looks again."""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dealfl.desk.sources import Source
from dealfl.errors import DealError
from dealfl.runs import Changes, RequestStatus, RunRecord, WorkerLine, find_state
from dealfl.server import RoundHistory, Version

REAL_FROM_S = 1e9  # smaller times are of a virtual clock
DAY_S = 86_400.0
STATES = ("overdue", "training", "awake", "asleep", "removed")
_MAX_ROUNDS = 1_000
_MAX_VERSIONS = 200
_MAX_REQUESTS = 400
_MAX_LOG = 200
_STALE_S = 30.0  # a page that nobody has asked for in this time is not kept up to date
_FIRST_S = 1.0  # that the first page waits for the first look


@dataclass(slots=True)
class View:
    """The state of a run; times are of the server's clock."""

    now: Changes | None = None  # the last answer
    workers: dict[str, WorkerLine] = field(default_factory=dict)
    rounds: dict[int, RoundHistory] = field(default_factory=dict)
    versions: dict[int, Version] = field(default_factory=dict)
    erasures: dict[str, RequestStatus] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    job_text: str = ""
    record: RunRecord | None = None  # of a finished run, or of its finished schemes
    problem: str = ""  # why the last look failed
    looked_s: float = 0.0  # when the last look succeeded, by the clock of this machine
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)
    _ahead_s: float = 0.0  # of the server's clock

    def apply(self, changes: Changes) -> None:
        """Take what has changed."""
        if changes.whole:
            for known in (self.workers, self.rounds, self.versions, self.erasures, self.log):
                known.clear()
            self.job_text = changes.job_text
        self.workers.update({line.name: line for line in changes.workers})
        self.rounds.update({row.number: row for row in changes.rounds})
        self.versions.update({version.number: version for version in changes.versions})
        self.erasures.update({status.name: status for status in changes.erasures})
        self.log = [*self.log, *changes.log][-_MAX_LOG:]
        _keep_last(self.rounds, _MAX_ROUNDS)
        _keep_last(self.versions, _MAX_VERSIONS)
        _keep_last(self.erasures, _MAX_REQUESTS)
        self.looked_s = time.time()
        self._ahead_s = changes.now_s - self.looked_s
        self.now, self.problem = changes, ""

    @property
    def is_real(self) -> bool:
        """Whether the server has the clock on the wall."""
        return self.now is not None and self.now.now_s >= REAL_FROM_S

    @property
    def now_s(self) -> float:
        """The time of the server's clock, now."""
        if self.now is None:
            return 0.0
        return time.time() + self._ahead_s if self.is_real else self.now.now_s

    @property
    def energy_source(self) -> str:
        """How figures of energy came about; workers of a network do not say it."""
        source = self.now.energy_source if self.now else ""
        return "as workers report" if source == "not stated" else source

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return self.now is not None and self.now.state == "finished"

    def state_of(self, worker: WorkerLine) -> str:
        """Return the state of a worker; one that should have called by now is overdue."""
        timeout_s = math.inf if self.now is None else self.now.timeout_s or math.inf
        state = find_state(worker, self.now_s, timeout_s)
        late = state == "asleep" and 0.0 < worker.call_by_s < self.now_s
        return "overdue" if late and not self.finished else state

    def states(self) -> Mapping[str, int]:
        """Return the number of workers in each state."""
        counts = Counter(map(self.state_of, self.workers.values()))
        return {state: counts[state] for state in STATES}

    def spent_today_j(self, worker: WorkerLine) -> float:
        """Return the energy of a worker in the present 24 hours of its budget."""
        return worker.spent_j if self.now_s - worker.spent_since_s < DAY_S else 0.0

    def closed_rounds(self) -> list[RoundHistory]:
        """Return the closed rounds, in order."""
        return [row for _, row in sorted(self.rounds.items()) if row.closed_s is not None]

    def open_round(self) -> RoundHistory | None:
        """Return the open round; None if no round is open."""
        return next((row for row in self.rounds.values() if row.closed_s is None), None)

    # -- names that no URL may contain -----------------------------------------------------------

    def handle(self, name: str) -> str:
        """Return what stands for a name in URLs; it means something to this desk only."""
        content = name.encode(errors="surrogatepass")
        return hashlib.blake2b(content, key=self.secret, digest_size=12).hexdigest()

    def find(self, handle: str, names: Iterable[str]) -> str | None:
        """Return the name that a handle stands for; None if there is none."""
        return next((name for name in names if self.handle(name) == handle), None)


def _keep_last(known: dict[Any, Any], most: int) -> None:
    """Delete the oldest entries."""
    for key in sorted(known)[: max(len(known) - most, 0)]:
        del known[key]


class Watch:
    """The view of a run, kept up to date; `version` increases with every change of it."""

    def __init__(self, source: Source) -> None:
        self.source, self.view = source, View()
        self.version = 0
        self._wanted_s = -_STALE_S
        self._changed = asyncio.Condition()
        self._first = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            if time.monotonic() - self._wanted_s < _STALE_S:
                await self._look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), self.source.every_s)
            self._hurry.clear()

    async def _look(self) -> None:
        view = self.view
        settled = {name: status for name, status in view.erasures.items() if status.published}
        try:
            look = await asyncio.to_thread(self.source.look, settled)
        except (DealError, OSError) as error:  # a run that vanishes, a server that stops
            changed, view.problem = view.problem != str(error), str(error)
        else:
            changed = look is not None or bool(view.problem)
            view.problem = ""
            for changes in look.changes if look else ():
                view.apply(changes)
            if look is not None and not self.source.remote:
                view.record = look.record
        self._first.set()
        if changed:
            await self.touch()

    async def touch(self) -> None:
        """Let all pages be rendered again."""
        async with self._changed:
            self.version += 1
            self._changed.notify_all()

    def want(self) -> None:
        """Keep the view up to date for a while."""
        if time.monotonic() - self._wanted_s > self.source.every_s:
            self._hurry.set()
        self._wanted_s = time.monotonic()

    def look_now(self) -> None:
        """Look again at once."""
        self._wanted_s = time.monotonic()
        self._hurry.set()

    async def ready(self) -> View:
        """Return the view; wait a moment for the first look."""
        self.want()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._first.wait(), _FIRST_S)
        return self.view

    async def next_version(self, seen: int, timeout_s: float) -> int:
        """Wait for another version than one, at most for a time; return the present one."""
        self.want()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.version != seen)
        return self.version
