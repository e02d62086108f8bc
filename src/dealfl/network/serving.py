"""The process of a server, from a job file, until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import msgspec

from dealfl.erasure import READMISSION, split_entry
from dealfl.errors import BadInput
from dealfl.jobs import Document, plan_without_data, read_job, read_privacy, read_selector
from dealfl.masks import SERVER, Asker, find_bits
from dealfl.network.control import Control
from dealfl.network.credentials import Credentials, require_role
from dealfl.network.processes import Health, read_enrolment, report_health, run_together
from dealfl.network.server_end import ParentEnd, ServerEnd
from dealfl.server import ChangeLog, Ledger, LedgerReader, Privacy, Region, Server, WorkerRow
from dealfl.storage import log

_LOG_EVERY_S = 1.0
_KEPT_ROUNDS = 1_000  # whose history stays whole in the ledger
CHANGES = ("erase", "remove", "certify")  # verbs for trusted operators only


async def serve(
    document: Document,
    folder: Path,
    brokers: Sequence[Credentials],
    stopped: asyncio.Event,
    *,
    parent: Sequence[Credentials] = (),
    answers: Callable[[ChangeLog], Mapping[str, Callable[..., object]]] = lambda _: {},
    trusted: Collection[str] = (),
    health: Health = lambda _: None,
    enrolment: Path | None = None,  # with a keyholder; only for the first start
) -> None:
    """Serve a job over one broker or several, until stopped; with a parent, as its region."""
    job = read_job(document)
    plan = plan_without_data(document)
    require_role(brokers, job.name, server=True)
    if parent:
        _require_parent(brokers, parent, job.name)
    with closing(Ledger(folder / "ledger.db", kept_rounds=_KEPT_ROUNDS)) as ledger:
        privacy = _find_privacy(document, job.name, folder, enrolment, plan.make().max_entry)
        parts = (plan.make, ledger, job.server_rules, read_selector(document, job), privacy)
        if parent:
            name = parent[0].user
            region = Region(job.name, name, *parts, retry_after_s=job.retry_after_s)
            server: Server = region
            end = ServerEnd(server, brokers)
            meet = partial(end.meet_parent, region)
            end.parent = ParentEnd(job.name, parent, end.put_from_parent, meet)
        elif ledger.reader.uplink() is not None:
            raise BadInput(
                f"{ledger.path} is the ledger of a region; give the credentials of its parent: "
                "--parent FILE"
            )
        else:
            server = Server(job.name, *parts)
            end = ServerEnd(server, brokers)
        changes = _Changes(server, end)
        changed = ledger.log_changes()
        told = ServerLog(job.name, ledger.reader, changed, lambda: server.workers)
        verbs = {**answers(changed), "erase": changes.erase, "remove": changes.remove}
        control = Control(verbs, changes=CHANGES, trusted=trusted)
        end.answer = control.answer
        since_s = time.monotonic()

        def line() -> str:
            up = sum(connection.is_up for connection in end.connections)
            received = sum(connection.traffic.received_bytes for connection in end.connections)
            return (
                f"{job.name}: {time.monotonic() - since_s:.0f} s, {up} of {len(brokers)} brokers, "
                f"{len(server.workers)} workers, round {server.reader.count_closed()}, "
                f"{received / 1e3:,.0f} kB received"
                + _describe_parent(server, end.parent)
                + f"; WAITING: {end.problem}" * bool(end.problem)
            )

        gc.freeze()  # a collection that walks all that was loaded lets everybody wait
        log("server started", job=job.name, workers=len(server.workers))
        await run_together(
            end.run(stopped), report_health(health, line, stopped), told.run(stopped)
        )
        log("server stopped", job=job.name)


def _require_parent(
    brokers: Sequence[Credentials], parent: Sequence[Credentials], job: str
) -> None:
    """Refuse credentials by which no region can reach a parent."""
    require_role(parent, job, server=False)
    above = {(broker.host, broker.port) for broker in parent}
    for broker in brokers:
        if (broker.host, broker.port) in above:
            raise BadInput(
                f"{broker.host}:{broker.port} is the broker of the region and of its parent; a "
                "region needs a broker of its own: dealfl broker init FOLDER --parent FILE"
            )
    if len({broker.user for broker in parent}) > 1 or parent[0].workers:
        users = ", ".join(sorted({broker.user for broker in parent}))
        raise BadInput(f"the parent's credentials are of {users}; a region is one device there")
    if len({broker.owners_key for broker in (*brokers, *parent)}) > 1:
        raise BadInput(
            "the region's broker hashes owners with another key than its parent, so that erasures "
            "would find nobody; write it with: dealfl broker init FOLDER --parent FILE"
        )


def _describe_parent(server: Server, parent: ParentEnd | None) -> str:
    """Return whether a region reaches its parent, and why it does not report to it."""
    if parent is None or not isinstance(server, Region):
        return ""
    where = "reached" if parent.is_served else f"not reached {parent.connection.problem}".rstrip()
    return f", parent {where}" + f"; PARENT: {server.problem}" * bool(server.problem)


def _find_privacy(
    document: Document, job: str, folder: Path, enrolment: Path | None, entry: int | None
) -> Privacy | None:
    """Return what keeps sums under masks; None if the job has no keyholder."""
    keys = read_privacy(document)
    own = read_enrolment(keys, folder, enrolment, SERVER, SERVER)
    if own is None:
        return None
    bits = find_bits(entry, keys.max_workers, read_job(document).rules.max_examples)
    return Privacy(Asker(own), job, keys.keyholder, keys.cohort, keys.max_workers, bits)


class _Changes:
    """What a trusted operator can change in a running server."""

    def __init__(self, server: Server, end: ServerEnd) -> None:
        self._server = server
        self._end = end

    def erase(
        self, request: str, owners: list[str], operator: str, requested_by: str = ""
    ) -> dict[str, object]:
        """Ask all workers to forget or readmit, given keyed hashes in hexadecimal digits."""
        try:
            msgspec.convert((request, owners, requested_by), tuple[str, list[str], str])
            hashes = [bytes.fromhex(owner) for owner in owners]
        except ValueError as error:
            raise BadInput(f"owners must be hexadecimal digits: {error}") from None
        who = operator if requested_by in ("", operator) else f"{requested_by} by {operator}"
        self._end.emit(self._server.erase(request, hashes, time.time(), who))
        readmits = hashes and split_entry(hashes[0])[0] == READMISSION
        event = "readmission requested" if readmits else "erasure requested"
        log(event, reason=who, entries=len(hashes))
        return {"request": request, "owners": len(owners)}

    def remove(self, worker: str, operator: str) -> dict[str, object]:
        """Remove a lost worker from the model."""
        msgspec.convert((worker, operator), tuple[str, str])
        self._end.emit(self._server.remove(worker, time.time()))
        log("worker removed", worker=worker, reason=operator)
        return {"removed": worker, "digest": self._server.model.digest()}


class ServerLog:
    """Logs workers, rounds, updates, versions and erasures, each once.

    It reads the ledger every second, after the commits: what the log says is durable, and `handle`
    knows nothing of logs.
    """

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
                await asyncio.wait_for(stopped.wait(), _LOG_EVERY_S)
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
