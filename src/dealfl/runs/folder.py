"""The folder of a run: job, ledger, results, and the saved state of a stopped run."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from dealfl.errors import BadBytes, BadInput, DealError, argument, meant_path, unreadable
from dealfl.jobs import Document
from dealfl.runs.result import RunProgress, RunRecord
from dealfl.server import Ledger
from dealfl.settings import read_text, toml_document
from dealfl.simulate import Outcome, RunState
from dealfl.storage import is_disk_failure, lock_file, make_folder, refused_write, replace_file

LEDGER, JOB, RESULT, RUNS, FORGETTING = "ledger.db", "job.toml", "result.json", "runs", "forgetting"
_RECORD, ERASED = "record", "erased.json"
OWNERS_KEY, WORKERS, REQUESTS, _COPY = "owners.key", "workers", "requests", "copied_data"
_OUTCOMES, _STATE, _PROGRESS, _LOCK = "outcomes", "state", "progress.json", "running"
_KEY_BYTES = 32  # of the hashes of owners
_DATABASE = b"SQLite format 3\0"
_LEDGER_LOGS = (f"{LEDGER}-wal", f"{LEDGER}-shm")  # left by a reader of the ledger
_WRITTEN = (LEDGER, *_LEDGER_LOGS, RESULT, _RECORD, ERASED, "report.html", "log.jsonl", OWNERS_KEY)


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path, ledger_name: str = LEDGER) -> None:
        self.path, self.ledger = path, path / ledger_name

    @classmethod
    def at(cls, path: str | Path = "", *, starting: bool = False) -> RunFolder:
        """Find an existing run, or raise BadInput."""
        path = Path(path) if path else _find_latest(Path(RUNS), starting)
        run = cls(path) if path.is_dir() else cls(path.parent, path.name)
        if path.is_file() and path.stat().st_size and not _is_database(path):
            raise BadInput(f"{path} is not a ledger; give a run folder or a ledger file")
        written = run.ledger.is_file() and (run.ledger == path or run.ledger.stat().st_size)
        if written or (starting and path.is_dir() and run.job is not None):
            return run
        if path.is_dir() and run.job is not None:
            if (path / RESULT).exists():
                raise BadInput(f"{path} has lost its {LEDGER}; restore a backup of it")
            raise BadInput(f"{path} has no {LEDGER} yet: its run is starting; try again soon")
        what = f"has no {LEDGER}" if path.is_dir() else "does not exist"
        if not path.exists() and (meant := meant_path(path)):
            raise BadInput(f"{path} {what}; {meant}")
        raise BadInput(f"{path} {what}; give a run folder or a ledger file")

    @classmethod
    def for_job(cls, name: str, *, latest: bool) -> RunFolder:
        """Return the folder in runs/ for the next run of a job; a finished run keeps its folder."""
        run = cls(Path(RUNS) / name)
        for number in count(2):
            following = cls(Path(RUNS) / f"{name}-{number}")
            if not run.finished or (latest and not following.path.exists()):
                break
            run = following
        return run

    @property
    def job(self) -> Path | None:
        """The path of the job file; None if there is none."""
        return job if (job := self.path / JOB).is_file() else None

    def job_text(self) -> str:
        """Return the TOML text of the job; empty if there is no job file."""
        return "" if self.job is None else read_text(self.job)

    def document(self) -> Document | None:
        """Return the parsed job file; None if there is none."""
        return None if self.job is None else Document.read(self.job)

    def tables(self) -> Mapping[str, Any]:
        """Return the sections of the job file; empty if there is none."""
        return {} if (document := self.document()) is None else document.tables

    @property
    def resumable(self) -> bool:
        """Whether the folder has a stopped run that can be resumed."""
        return (self.path / _OUTCOMES).exists() or bool(self._states())

    @property
    def finished(self) -> bool:
        """Whether the folder has a result, or a ledger of another program, and no stopped run."""
        return not self.resumable and any((self.path / name).exists() for name in (RESULT, LEDGER))

    def prepare(self, job_text: str, data: Mapping[str, str] | None = None) -> None:
        """Create the folder, delete the files of an earlier run, and write the job."""
        with self._writing():
            self.discard()
            replace_file(self.path / JOB, job_text.encode())
            for name, text in (data or {}).items():
                replace_file(self.path / _COPY, name)  # for `discard_copy`
                replace_file(self.path / name, text)

    def discard(self) -> None:
        """Delete what a run wrote, with the examples in its saved state; the job remains."""
        for name in _WRITTEN:
            (self.path / name).unlink(missing_ok=True)
        for name in (WORKERS, REQUESTS):
            shutil.rmtree(self.path / name, ignore_errors=True)
        self.discard_copy()
        self.discard_state()

    def discard_copy(self) -> None:
        """Delete the copy of data in memory."""
        if not (copy := self.path / _COPY).exists():
            return
        remedy = "delete it, and the copy of the data that lies beside it"
        try:
            name = copy.read_text("utf-8")
        except OSError as error:
            raise unreadable(copy, error, remedy) from error
        except UnicodeDecodeError:
            name = ""
        if name in ("", "..") or Path(name).name != name:  # no file elsewhere is deleted
            raise BadBytes(f"{copy} is damaged; {remedy}")
        (self.path / name).unlink(missing_ok=True)
        copy.unlink()

    def owners_key(self) -> bytes:
        """Return the run's key for the hashes of owners; the first call draws it."""
        path = self.path / OWNERS_KEY
        remedy = f"restore a copy of it, or start again with {argument('restart', True)}"
        is_used = self.resumable or (self.path / WORKERS).exists()
        if not is_used and not path.is_symlink() and not path.exists():
            replace_file(path, secrets.token_hex(_KEY_BYTES))
        try:
            key = bytes.fromhex(path.read_text("ascii"))
        except OSError as error:
            raise unreadable(path, error, remedy) from error
        except ValueError:
            key = b""
        if len(key) != _KEY_BYTES:
            raise BadBytes(f"{path} is damaged; {remedy}")
        return key

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Create the folder if it is missing; explain errors of writing into it."""
        fresh = self.path.parent == Path(RUNS) and not self.path.parent.exists()
        try:
            make_folder(self.path)
            if fresh:  # git ignores a new runs/ because it can contain personal data
                replace_file(self.path.parent / ".gitignore", "# made by dealfl\n*\n")
            yield
        except OSError as error:
            if is_disk_failure(error):
                raise refused_write(self.path, error) from error
            raise BadInput(
                f"{self.path} cannot be written ({error.strerror}); use another folder with "
                f"{argument('out')}"
            ) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Yield while no other process can run in the folder; raise BadInput if one does."""
        with self._writing():
            release = lock_file(self.path / _LOCK, f"the run folder {self.path}")
        try:
            yield
        finally:
            release()
            with suppress(OSError):
                self.path.rmdir()  # if nothing was written

    def open_server(self, document: Document) -> None:
        """Create the folder of a server, or refuse one that belongs to another job."""
        if (own := self.document()) is None:
            self.prepare(toml_document(document.tables))
        elif own.tables != document.tables:
            raise BadInput(
                f"{self.path} belongs to another job; use another folder with {argument('out')}"
            )

    def discard_state(self) -> None:
        """Delete the saved state and incomplete files."""
        named = (self.path / name for name in (_OUTCOMES, _PROGRESS, FORGETTING))
        for file in [*named, *self._states(), *self.path.glob("*.part")]:
            file.unlink(missing_ok=True)

    def _states(self) -> list[Path]:
        return [file for file in self.path.glob(f"{_STATE}-*") if file.suffix != ".part"]

    def outcomes(self) -> dict[str, Outcome]:
        """Return the outcomes of finished schemes, by scheme."""
        path = self.path / _OUTCOMES
        if not path.exists():
            return {}
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=dict[str, Outcome])
        except msgspec.MsgspecError as error:
            raise BadBytes(
                f"{path} is damaged ({error}); run again with {argument('restart', True)}"
            ) from error

    def save_outcomes(self, outcomes: dict[str, Outcome]) -> None:
        """Write the outcomes of finished schemes, and delete their saved states."""
        replace_file(self.path / _OUTCOMES, msgspec.msgpack.encode(outcomes))
        for scheme in outcomes:
            (self.path / f"{_STATE}-{scheme}").unlink(missing_ok=True)

    def record(self) -> RunRecord:
        """Return what a finished run reported, without the name of a person."""
        path = self.path / _RECORD
        if not path.exists():
            raise BadInput(f"{self.path} has no finished run, which alone has a report")
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=RunRecord)
        except msgspec.MsgspecError as error:
            raise BadBytes(
                f"{path} is damaged ({error}); run again with {argument('restart', True)}"
            ) from error

    def save_record(self, record: RunRecord) -> None:
        """Write what a run reports, without the name of the person who was erased."""
        replace_file(self.path / _RECORD, msgspec.msgpack.encode(record.without_name()))

    def state(self, scheme: str) -> RunState | None:
        """Return the saved state of a scheme."""
        file = self.path / f"{_STATE}-{scheme}"
        return RunState.read(file) if file.exists() else None

    def save_state(self, scheme: str, state: RunState) -> None:
        """Write the state of a scheme, atomically."""
        state.write(self.path / f"{_STATE}-{scheme}")

    def save_ledger(self, ledger: Ledger) -> None:
        """Replace the ledger by a copy, and delete the write-ahead log of the old one."""
        for name in _LEDGER_LOGS:
            (self.path / name).unlink(missing_ok=True)
        ledger.write_copy(self.path / LEDGER)

    def save_progress(self, progress: RunProgress) -> None:
        """Write the progress of the run, unless that fails."""
        with suppress(DealError):
            replace_file(self.path / _PROGRESS, msgspec.json.encode(progress))

    def progress(self) -> RunProgress | None:
        """Return the progress of the run; None if no run is under way."""
        try:
            return msgspec.json.decode((self.path / _PROGRESS).read_bytes(), type=RunProgress)
        except (OSError, msgspec.MsgspecError):
            return None


def runs_of_file(folder: RunFolder, file: str) -> list[RunFolder]:
    """Return the runs that read a file of this name: in a folder, beside it, and in `runs`."""
    places = dict.fromkeys((Path(RUNS).resolve(), folder.path.parent.resolve()))
    beside = [path for place in places if place.is_dir() for path in sorted(place.iterdir())]
    return [run for run in map(RunFolder, beside) if _reads(run, file)]


def _reads(run: RunFolder, file: str) -> bool:
    try:
        read = str(run.tables().get("source", {}).get("file", ""))
    except DealError:  # a run that is damaged stops no other
        return False
    return bool(read) and Path(read).name == Path(file).name


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE


def _find_latest(runs: Path, starting: bool) -> Path:
    names = (LEDGER, JOB) if starting else (LEDGER,)
    files = [file for name in names for file in runs.glob(f"*/{name}") if file.is_file()]
    if not files:
        raise BadInput(f"{runs}/ has no run; give a run folder or a ledger file")
    return max(files, key=lambda file: (file.stat().st_mtime, str(file))).parent
