"""What a server logs: workers, rounds, updates, versions, erasures, each once.

It is read from the ledger every second, after the commits: what the log says is durable, and
`handle` knows nothing of logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from dealfl.server import ChangeLog, LedgerReader, WorkerRow
from dealfl.storage import log

_EVERY_S = 1.0


class ServerLog:
    """Logs what has changed in a server's ledger since it was looked at before."""

    def __init__(
        self,
        job: str,
        reader: LedgerReader,
        changed: ChangeLog,
        workers: Callable[[], Mapping[str, WorkerRow]],
    ) -> None:
        self._job, self._reader, self._changed, self._workers = job, reader, changed, workers
        self._known = dict(workers())
        self._seen = changed.since(0)[1]
        rounds, versions = reader.round_history(most=1), reader.versions(most=1)
        self._round = rounds[-1].number - (rounds[-1].closed_s is None) if rounds else 0
        self._version = versions[-1].number if versions else 0
        self._erasures = reader.count_erasures()

    async def run(self, stopped: asyncio.Event) -> None:
        """Log until stopped."""
        while not stopped.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), _EVERY_S)
            self.note()

    def note(self) -> None:
        """Log what is new."""
        self._note_workers()
        for row in self._reader.round_history(self._round):
            if row.closed_s is None:
                continue
            self._round = row.number
            log(
                "round closed",
                job=self._job,
                round=row.number,
                reason=row.reason,
                selected=row.selected,
                replied=row.replied,
                declined=row.declined,
                learned=row.learned,
                evicted=row.evicted,
                energy_j=row.energy_j,
            )
        for version in self._reader.versions(self._version):
            self._version = version.number
            number, erased = version.number, version.erased
            log(
                "version published",
                job=self._job,
                round=version.round,
                number=number,
                erased=erased,
            )
        self._note_erasures()

    def _note_workers(self) -> None:
        names, self._seen = self._changed.since(self._seen)
        workers = self._workers()
        for name in names:
            row, before = workers.get(name), self._known.get(name, WorkerRow(name))
            if row is None:
                continue
            self._known[name] = row
            if row.incarnation > before.incarnation:
                log("worker joined", job=self._job, worker=name, incarnation=row.incarnation)
            if row.flag and row.flag != before.flag:
                log("worker flagged", job=self._job, worker=name, reason=row.flag, level="warning")
            if row.counted > before.counted:
                log("update counted", job=self._job, worker=name, sequence=row.counted)

    def _note_erasures(self) -> None:
        requested, shown = self._reader.count_erasures()
        if requested > self._erasures[0]:
            log("erasures recorded", job=self._job, count=requested - self._erasures[0])
        if shown > self._erasures[1]:
            log("erasures published", job=self._job, count=shown - self._erasures[1])
        self._erasures = (requested, shown)
