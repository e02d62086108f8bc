"""What a desk looks at, and what its forms change: a run in a folder, or a running server."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dealfl.erasure import (
    Erasure,
    ErasureRequest,
    Evidence,
    list_certificates,
    verify_certificate,
)
from dealfl.errors import BadInput, DealError
from dealfl.report import format_count
from dealfl.runs import (
    CERTIFICATES,
    Changes,
    Holding,
    RequestStatus,
    RunFolder,
    RunningServer,
    RunRecord,
    carry_out_queue,
    certify,
    complete_erasure,
    export_model,
    file_erasure,
    find_holdings,
    find_unknown,
    open_model,
    read_changes,
    read_worker_rounds,
    readmit_left_out,
    readmit_owners,
    remove_worker,
    retrain,
)
from dealfl.storage import make_folder

_WATCHED = ("progress.json", "record", "result.json", "outcomes", "log.jsonl", "requests",
            CERTIFICATES)  # fmt: skip
_WAIT_S = 3600.0  # for a run that is under way


@dataclass(frozen=True, slots=True)
class Held:
    """What a run holds of a person, as far as it can be known here."""

    holdings: list[Holding] | None  # None: only the workers know
    known: bool
    near: list[str]  # names that are spelt nearly so


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate file that was verified."""

    path: Path
    erasure: Erasure
    entry: int | None  # in the log; None if the log is not here


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at a run has found."""

    changes: list[Changes]
    record: RunRecord | None = None


class Source(Protocol):
    """A run that a desk shows; every call may take a while, and runs in a thread."""

    where: str  # for people
    who: str  # on whose account changes are made
    folder: Path  # for the desk's own files
    remote: bool
    every_s: float  # between two looks: a change is visible within two seconds

    def look(self, settled: Mapping[str, RequestStatus]) -> Look | None:
        """Look again; None if nothing has changed. `settled` requests change no more."""

    def hold(self, owner: str) -> Held:
        """Return what is held of a person."""

    def request(self, owner: str, requested_by: str) -> ErasureRequest:
        """Ask for an erasure; when this returns, it survives kill −9 of the desk."""

    def complete(self, request: ErasureRequest, say: Callable[[str], None]) -> None:
        """Carry out a request, or wait for its run; write its certificate."""

    def carry_on(self) -> None:
        """Carry out requests that an earlier process has left."""

    def certify(self, request: str, commitments: Sequence[str]) -> Path:
        """Write a certificate of the present state of a request."""

    def certificates(self) -> list[Certificate]:
        """Return the certificates that are here, the latest first."""

    def verify(self, certificate: bytes, name: str = "") -> Certificate:
        """Verify a certificate from elsewhere."""

    def retrain(self) -> str:
        """Return the digest of training again on what is held."""

    def readmit(self, owner: str, requested_by: str) -> str:
        """Readmit a person; return a sentence on it."""

    def remove(self, worker: str) -> str:
        """Remove a worker from the model; return a sentence on it."""

    def worker_rounds(self, worker: str) -> list[dict[str, object]]:
        """Return the rounds of a worker."""

    def export(self) -> bytes:
        """Return the model as a file."""


def open_source(
    path: str, server: RunningServer | None = None, *, expected: bool = False
) -> Source:
    """Return the source of a path: a run folder, a ledger, or credentials of an operator.

    In a folder where a run is `expected`, none need be yet.
    """
    if server is not None:
        return ServerSource(server, Path(path))
    return FolderSource(RunFolder(Path(path)) if expected else RunFolder.at(path, starting=True))


class FolderSource:
    """A run in a folder."""

    remote, every_s = False, 1.0

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.where, self.who, self.folder = str(run.path), account(), run.path
        self._seen: object = None
        self._record: tuple[object, RunRecord | None] = (None, None)
        self._verified: dict[Path, tuple[int, Certificate]] = {}

    def look(self, settled: Mapping[str, RequestStatus]) -> Look | None:
        """Read the folder if a file has changed, in one short transaction."""
        if (seen := self._signature()) == self._seen:
            return None
        look = Look([read_changes(self.run, settled)], self._read_record())
        self._seen = seen
        return look

    def _signature(self) -> object:
        ledger = self.run.ledger
        files = [ledger, ledger.with_name(f"{ledger.name}-wal")]
        files += [self.run.path / name for name in _WATCHED]
        return [_stamp(file) for file in files]

    def _read_record(self) -> RunRecord | None:
        """Return what the run has reported; of a run under way, its finished schemes."""
        stamp = [_stamp(self.run.path / name) for name in ("record", "outcomes")]
        if stamp != self._record[0]:
            self._record = (stamp, self._load_record())
        return self._record[1]

    def _load_record(self) -> RunRecord | None:
        with suppress(DealError, OSError):
            if outcomes := tuple(self.run.outcomes().values()):
                return RunRecord(outcomes[0].job, outcomes, self.run.job_text())
            return self.run.record()
        return None

    def hold(self, owner: str) -> Held:
        """Return what the journals hold."""
        unknown, near = find_unknown(self.run, [owner])
        return Held(find_holdings(self.run, owner), not unknown, near)

    def request(self, owner: str, requested_by: str) -> ErasureRequest:
        """Put a request into the queue of the run."""
        return file_erasure(self.run, [owner], requested_by=requested_by)

    def complete(self, request: ErasureRequest, say: Callable[[str], None]) -> None:
        """Carry the request out, or wait for the run."""
        complete_erasure(self.run, request, wait_s=_WAIT_S, progress=say)

    def carry_on(self) -> None:
        """Carry out the queue of a finished run."""
        carry_out_queue(self.run)

    def certify(self, request: str, commitments: Sequence[str]) -> Path:
        """Write a certificate into the folder."""
        return certify(self.run, request, "", commitments)

    def certificates(self) -> list[Certificate]:
        """Return the certificates of the run, verified once for each state of the log."""
        return verified_in(self.run.path / CERTIFICATES, self._verified, with_log=True)

    def verify(self, certificate: bytes, name: str = "") -> Certificate:
        """Verify by the keys and the log of the run."""
        return verify_text(certificate, self.run.path / CERTIFICATES, name, with_log=True)

    def retrain(self) -> str:
        """Train again on the journals."""
        return retrain(self.run)

    def readmit(self, owner: str, requested_by: str) -> str:
        """Readmit a person, also in later runs of the same file."""
        erased = readmit_owners(self.run, [owner], requested_by=requested_by)
        erased += readmit_left_out(self.run, [owner])
        were = "The person was erased before." if erased else "The person was not erased before."
        return f"New examples of the person are admitted. {were}"

    def remove(self, worker: str) -> str:
        """Remove a worker; a ledger that a server has open is refused."""
        removed = remove_worker(self.run, worker)
        updates = format_count(removed.updates, "update")
        return f"Removed from the model: {updates}. New digest: {removed.digest_after}"

    def worker_rounds(self, worker: str) -> list[dict[str, object]]:
        """Read the rounds of a worker."""
        return read_worker_rounds(self.run, worker)

    def export(self) -> bytes:
        """Export the model of the ledger."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.deal"
            export_model(open_model(self.run.path), path)
            return path.read_bytes()


class ServerSource:
    """A running server, reached over its broker, with one question at a time."""

    remote, every_s = True, 1.5

    def __init__(self, server: RunningServer, path: Path) -> None:
        self._server, self._asking = server, threading.Lock()  # one connection for each operator
        self.where = f"the server at {server.ledger}"
        self.who, self.folder = server.operator, path.resolve().parent
        self._since = ""
        self._verified: dict[Path, tuple[int, Certificate]] = {}

    @property
    def _certificates(self) -> Path:
        return self.folder / CERTIFICATES

    def look(self, settled: Mapping[str, RequestStatus]) -> Look | None:  # noqa: ARG002
        """Ask what has changed; the workers of a large fleet come in parts."""
        since, parts = self._since, list[Changes]()
        while not parts or parts[-1].more:
            with self._asking:
                parts.append(self._server.changes(since))
            since = parts[-1].since
        self._since = since
        return Look(parts)

    def hold(self, owner: str) -> Held:  # noqa: ARG002
        """Say that only the workers know: they keep names to themselves."""
        return Held(None, True, [])

    def request(self, owner: str, requested_by: str) -> ErasureRequest:
        """Ask the server."""
        with self._asking:
            return self._server.request_erasure([owner], requested_by)

    def complete(self, request: ErasureRequest, say: Callable[[str], None]) -> None:
        """Fetch a certificate; until all workers have answered it is not final."""
        say("the server has the request; its workers answer when they are reached")
        self.certify(request.name, request.commitments)

    def carry_on(self) -> None:
        """Do nothing: the server keeps its requests itself."""

    def certify(self, request: str, commitments: Sequence[str]) -> Path:
        """Fetch a certificate of the present state."""
        make_folder(self._certificates)
        with self._asking:
            return self._server.certify(request, "", self._certificates, commitments)

    def certificates(self) -> list[Certificate]:
        """Return the certificates that were fetched; the log is on the server's machine."""
        return verified_in(self._certificates, self._verified, with_log=False)

    def verify(self, certificate: bytes, name: str = "") -> Certificate:
        """Verify by the keys that came with earlier certificates."""
        return verify_text(certificate, self._certificates, name, with_log=False)

    def retrain(self) -> str:
        """Refuse: the examples are on the workers."""
        raise BadInput("the workers keep their examples, so nobody can train again on all of them")

    def readmit(self, owner: str, requested_by: str) -> str:
        """Ask the server."""
        with self._asking:
            self._server.readmit([owner], requested_by)
        return "New examples of the person are admitted when the workers are reached."

    def remove(self, worker: str) -> str:
        """Ask the server."""
        with self._asking:
            digest = self._server.remove(worker)
        return f"The worker was removed. New digest: {digest}"

    def worker_rounds(self, worker: str) -> list[dict[str, object]]:
        """Ask the server."""
        with self._asking:
            return self._server.worker_rounds(worker)

    def export(self) -> bytes:
        """Fetch the model."""
        with tempfile.TemporaryDirectory() as folder, self._asking:
            path = Path(folder) / "model.deal"
            self._server.save_model(path)
            return path.read_bytes()


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def account() -> str:
    """Return the account of this process."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no accounts
        return "unknown"


def verified_in(
    folder: Path, known: dict[Path, tuple[int, Certificate]], *, with_log: bool
) -> list[Certificate]:
    """Return the valid certificates of a folder, the latest first; each file is read once."""
    for path in list_certificates(folder):
        stamp = _stamp(path)
        if stamp is None or (path in known and known[path][0] == stamp[0]):
            continue
        with suppress(DealError):  # it is shown when somebody drops it on the page
            evidence = Evidence(folder, folder if with_log else None)
            known[path] = (stamp[0], Certificate(path, *verify_certificate(path, evidence)))
    for gone in [path for path in known if not path.exists()]:
        del known[gone]
    return [known[path][1] for path in reversed(list_certificates(folder)) if path in known]


def verify_text(content: bytes, keys: Path, name: str, *, with_log: bool) -> Certificate:
    """Verify a certificate that is not a file yet."""
    if not keys.is_dir():
        raise BadInput("there is no key to verify with: no certificate was written here yet")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        path.write_bytes(content)
        try:
            erasure, entry = verify_certificate(path, Evidence(keys, keys if with_log else None))
        except DealError as error:
            raise BadInput(str(error).replace(str(path), "this text")) from error
    return Certificate(Path(name or "certificate.json"), erasure, entry)
