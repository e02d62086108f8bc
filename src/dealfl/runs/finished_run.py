"""Server and workers of a finished run, started again from the files in its folder.

They exchange the same messages as in a run, under a virtual clock that continues that of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from dealfl.erasure import EXAMPLE, example_hash, owner_hash, resolve_owner
from dealfl.errors import BadBytes, BadInput, DealError
from dealfl.jobs import Document, plan_without_data, read_job, read_plan
from dealfl.learners import Learner, statistics_of
from dealfl.protocol import plain_name
from dealfl.runs.folder import JOB, WORKERS, RunFolder
from dealfl.server import Ledger, Server, WorkerRow
from dealfl.server.selection import Uniform
from dealfl.simulate import Simulation
from dealfl.storage import make_folder
from dealfl.worker import Device, Journal, MeasuredMeter, State, Worker

_MAX_STEPS = 1_000


def keep_journals(run: RunFolder, journals: Iterable[tuple[str, Journal]]) -> None:
    """Write the journals of all workers, so that persons can be erased later."""
    make_folder(run.path / WORKERS)
    for name, journal in journals:
        journal.write_copy(run.path / WORKERS / f"{name}.db")


def find_journals(run: RunFolder) -> dict[str, Path]:
    """Return the journals of a finished run, by worker."""
    files = sorted((run.path / WORKERS).glob("*.db"))
    for file in files:
        if file.is_file() and not file.stat().st_size:
            raise BadBytes(f"the journal {file} is empty; restore a backup of it")
    return {file.stem: file for file in files}


def require_journals(run: RunFolder) -> dict[str, Path]:
    """Return the journals of a finished run, by worker; refuse a run that has none."""
    if journals := find_journals(run):
        return journals
    raise BadInput(f"{run.path} has no journals of workers, so that nobody can be erased from it")


def require_document(run: RunFolder) -> Document:
    """Return the job of a finished run; refuse a run that has lost it."""
    if (document := run.document()) is None:
        raise BadInput(f"{run.path / JOB} is missing, or no file; restore a backup of it")
    return document


class Clock(Simulation):
    """A simulation that runs to its next event, and delivers models without an assignment."""

    def run_next(self) -> None:
        """Process the next event, and all others at the same time."""
        if self._queue:
            self.run(self._queue[0][0])

    def deliver_model(self) -> None:
        """Hand the last published model to all workers."""
        if self._published is not None:
            for name in self.workers:
                self.call(name, [self._published])
            self.server.confirm(self._published.version)
            self._published = None


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """Server and workers of a finished run, and the clock between them."""

    make: Callable[[], Learner]
    ledger: Ledger
    server: Server
    journals: dict[str, Journal]
    simulation: Clock

    def erase(self, request: str, owners: Sequence[bytes], requested_by: str) -> None:
        """Let all workers forget; stop when a published version shows it, or nothing happens."""
        clock = self.simulation
        clock.send("", self.server.erase(request, owners, clock.now_s, requested_by))
        for _ in range(_MAX_STEPS):
            clock.run_next()
            clock.deliver_model()
            if self.is_shown and not any(journal.outgoing for journal in self.journals.values()):
                break

    @property
    def is_shown(self) -> bool:
        """Whether a published version contains all erasures."""
        requested, shown = self.ledger.reader.count_erasures()
        return requested == shown


@contextmanager
def open_finished(run: RunFolder, key: bytes) -> Iterator[FinishedRun]:
    """Yield server and workers, started from the files of a run; compact these at the end."""
    document, files = require_document(run), require_journals(run)
    job, make = read_job(document), plan_without_data(document).make
    with ExitStack() as stack:
        ledger = stack.enter_context(closing(Ledger(run.ledger)))
        journals = {
            name: stack.enter_context(closing(Journal(path))) for name, path in files.items()
        }
        for store in (ledger, *journals.values()):
            stack.enter_context(store.cleaned_at_the_end())
        rounds = max(ledger.reader.count_closed(), 1)
        # nobody downloads versions of a finished run, so that none has to wait for others
        rules = replace(job.server_rules, rounds=rounds, release_batch=1)
        server = Server(job.name, make, ledger, rules, Uniform())
        devices = {name: _device_of(row) for name, row in server.workers.items()}
        workers = [
            Worker(job.name, name, make, journal, MeasuredMeter(), key=key,
                   device=devices.get(name))
            for name, journal in journals.items()
        ]  # fmt: skip
        clock = Clock(server, workers, start_s=ledger.reader.latest_s())
        yield FinishedRun(make, ledger, server, journals, clock)


def _device_of(row: WorkerRow) -> Device:
    """Return the device that a worker has announced last: it is not there to announce another."""
    return Device(row.device, row.capacity_j, row.battery, charging=row.charging)


# -- what a finished run holds -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holding:
    """What a worker holds of a person."""

    worker: str
    learned: int
    waiting: int
    grace: int
    ids: list[str]


def find_holdings(run: RunFolder, owner: str) -> list[Holding]:
    """Return what each worker of a finished run holds of a person."""
    key, holdings = run.owners_key(), []
    hashes = resolve_owner(key, owner)
    for name, path in find_journals(run).items():
        with closing(Journal(path)) as journal:
            by_state = journal.records_of(hashes)
            ids = [
                example_hash(key, record.owner, record.body).removeprefix(EXAMPLE).hex()
                for records in by_state.values()
                for record in records
            ]
            learned, waiting, grace = (
                len(by_state[state]) for state in (State.LEARNED, State.WAITING, State.GRACE)
            )
            holdings += [Holding(name, learned, waiting, grace, ids)] if ids else []
    return holdings


@dataclass(frozen=True, slots=True)
class HeldOwner:
    """A person of whom a run holds examples."""

    owner: str
    examples: int
    workers: list[str]


def list_owners(run: RunFolder) -> list[HeldOwner]:
    """Return all persons of whom a finished run holds examples."""
    counts: dict[bytes, dict[str, int]] = {}
    for name, path in find_journals(run).items():
        with closing(Journal(path)) as journal:
            for owner, count in journal.owners().items():
                counts.setdefault(owner, {})[name] = count
    names = read_names(run)
    owners = [
        HeldOwner(names.get(owner, f"#{owner.hex()}"), sum(by.values()), sorted(by))
        for owner, by in counts.items()
    ]
    return sorted(owners, key=lambda person: person.owner)


def read_names(run: RunFolder) -> dict[bytes, str]:
    """Return the names of persons by keyed hash, from the data of the run if they still exist."""
    key, text = run.owners_key(), run.job_text()
    for folder in (run.path, Path.cwd()):  # a data file is named relative to the original job
        with suppress(DealError):
            document = Document.parse(text, JOB, folder)
            reading = read_plan(document, read_job(document)).subject.read()
            break
    else:
        return {}
    indices = range(len(reading.examples))
    names = {reading.owner(index) for index in indices}
    if reading.owner_names is None:  # histories of a dataset are called by their index
        names |= {f"{index}" for index in indices}
    return {owner_hash(key, name): plain_name(name) for name in names}


def retrain(run: RunFolder, without: str = "") -> str:
    """Return the digest of training on all examples that the workers of a finished run hold."""
    document, files = require_document(run), require_journals(run)
    left_out = resolve_owner(run.owners_key(), without) if without else ()
    make = plan_without_data(document).make
    model = make()
    with closing(Ledger(run.ledger)) as ledger:
        if (base := ledger.find_sum("")) is not None:
            model.merge(base)
    for path in files.values():
        with closing(Journal(path)) as journal:
            learned = journal.records(State.LEARNED)
        kept = [record for record in learned if record.owner not in left_out]
        model.merge(statistics_of(make, kept)[0])
    return model.digest()
