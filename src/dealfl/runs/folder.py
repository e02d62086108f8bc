"""The folder of a run: job, ledger, results, and the saved state of a stopped run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path

import msgspec

from dealfl.atomic_files import is_disk_failure, refused_write, replace_file
from dealfl.errors import BadBytes, BadInput, DealError
from dealfl.jobs import Document
from dealfl.runs.progress import PROGRESS, RunProgress, read_progress, write_progress
from dealfl.settings import toml_document
from dealfl.simulate import Outcome, RunState, read_state, write_state

__all__ = ["JOB", "RESULT", "RunFolder"]

LEDGER, JOB, RUNS = "ledger.db", "job.toml", "runs"

_OUTCOMES, _STATE = "outcomes", "state"
_LEDGER_LOGS = (f"{LEDGER}-wal", f"{LEDGER}-shm")  # left by a reader of the ledger
RESULT = "result.json"
_WRITTEN = (LEDGER, *_LEDGER_LOGS, RESULT, "report.html", "log.jsonl")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run.

    Parameters
    ----------
    path : Path
        The folder.
    ledger_name : str, default "ledger.db"
        File name of the ledger; a single ledger can have any name.
    """

    path: Path
    ledger_name: str = LEDGER

    @classmethod
    def at(cls, path: str | Path = "", *, starting: bool = False) -> RunFolder:
        """Find an existing run.

        Parameters
        ----------
        path : str or Path, default ""
            Run folder or ledger file; "" means the latest run in runs/.
        starting : bool, default False
            Whether to accept a run that has no ledger yet.

        Returns
        -------
        RunFolder
            The run.

        Raises
        ------
        BadInput
            If there is no ledger.
        """
        place = Path(path) if path else _find_latest(Path(RUNS), starting)
        run = cls(place) if place.is_dir() else cls(place.parent, place.name)
        if place.is_dir() and run.job is not None and not run.ledger.is_file():
            if starting:
                return run
            raise BadInput(f"{place} has no {LEDGER} yet: its run is starting; try again soon")
        if not run.ledger.is_file():
            what = f"{place} has no {LEDGER}" if place.is_dir() else f"{place} does not exist"
            raise BadInput(f"{what}; give a run folder or a ledger file")
        return run

    @classmethod
    def for_job(cls, name: str, *, latest: bool = False) -> RunFolder:
        """Return the folder in runs/ for the next run of a job; a finished run keeps its folder.

        Parameters
        ----------
        name : str
            Name of the job.
        latest : bool, default False
            Whether to return the latest folder of the job, even if its run is finished.

        Returns
        -------
        RunFolder
            runs/NAME, runs/NAME-2, …
        """
        run = cls(Path(RUNS) / name)
        for number in count(2):
            following = cls(Path(RUNS) / f"{name}-{number}")
            if not run.finished or (latest and not following.path.exists()):
                break
            run = following
        return run

    @property
    def ledger(self) -> Path:
        """The path of the ledger."""
        return self.path / self.ledger_name

    @property
    def job(self) -> Path | None:
        """The path of the job file; None if there is none."""
        job = self.path / JOB
        return job if job.is_file() else None

    def job_text(self) -> str:
        """Return the text of the job.

        Returns
        -------
        str
            TOML text; empty if there is no job file.
        """
        return "" if self.job is None else self.job.read_text(encoding="utf-8")

    def document(self) -> Document | None:
        """Return the parsed job file.

        Returns
        -------
        Document or None
            The job file; None if there is none.
        """
        return None if self.job is None else Document.read(self.job)

    def write(self, name: str, content: bytes) -> Path:
        """Write or replace a file, atomically.

        Parameters
        ----------
        name : str
            Name of the file.
        content : bytes
            New content.

        Returns
        -------
        Path
            Path of the file.
        """
        return replace_file(self.path / name, content)

    # -- start and resume -----------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether the folder has a result, or a ledger of another program, and no stopped run."""
        held = (self.path / RESULT, self.path / LEDGER)
        return not self.resumable and any(file.exists() for file in held)

    @property
    def resumable(self) -> bool:
        """Whether the folder has a stopped run that can be resumed."""
        return (self.path / _OUTCOMES).exists() or bool(self._states())

    def prepare(self, job_text: str) -> None:
        """Create the folder, delete the files of an earlier run, and write the job.

        Parameters
        ----------
        job_text : str
            TOML text of the job.

        Raises
        ------
        DealError
            If the folder cannot be written.
        """
        try:
            self._make()
            for name in _WRITTEN:
                (self.path / name).unlink(missing_ok=True)
            self.discard_state()
            self.write(JOB, job_text.encode())
        except OSError as error:
            raise self._refused(error) from error

    def open_server(self, document: Document) -> None:
        """Create the folder of a server, or check that it belongs to the same job.

        Parameters
        ----------
        document : Document
            The job file.

        Raises
        ------
        BadInput
            If the folder belongs to another job.
        """
        known = self.document()
        if known is not None and known.tables != document.tables:
            raise BadInput(f"{self.path} belongs to another job; use another folder with --out")
        if known is None:
            self.prepare(toml_document(document.tables))

    def _make(self) -> None:
        """Create the folder; git ignores a new runs/ because it can contain personal data."""
        fresh = self.path.parent == Path(RUNS) and not self.path.parent.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        if fresh:
            (self.path.parent / ".gitignore").write_text("# made by dealfl\n*\n")

    def _refused(self, error: OSError) -> DealError:
        if is_disk_failure(error):
            return refused_write(self.path, error)
        return BadInput(
            f"{self.path} cannot be written ({error.strerror}); use another folder with --out"
        )

    def discard_state(self) -> None:
        """Delete the saved state and incomplete files."""
        for name in (_OUTCOMES, PROGRESS):
            (self.path / name).unlink(missing_ok=True)
        for file in [*self._states(), *self.path.glob("*.part")]:
            file.unlink()

    def _states(self) -> list[Path]:
        return [file for file in self.path.glob(f"{_STATE}-*") if file.suffix != ".part"]

    def outcomes(self) -> dict[str, Outcome]:
        """Return the outcomes of finished schemes.

        Returns
        -------
        dict of str to Outcome
            Outcomes by scheme.

        Raises
        ------
        BadBytes
            If the file is damaged.
        """
        path = self.path / _OUTCOMES
        if not path.exists():
            return {}
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=dict[str, Outcome])
        except msgspec.MsgspecError as error:
            raise BadBytes(f"{path} is damaged ({error}); run again with --restart") from error

    def save_outcomes(self, outcomes: dict[str, Outcome]) -> None:
        """Write the outcomes of finished schemes, and delete their saved states.

        Parameters
        ----------
        outcomes : dict of str to Outcome
            Outcomes by scheme.
        """
        self.write(_OUTCOMES, msgspec.msgpack.encode(outcomes))
        for scheme in outcomes:
            self._state_path(scheme).unlink(missing_ok=True)

    def state(self, scheme: str) -> RunState | None:
        """Return the saved state of a scheme.

        Parameters
        ----------
        scheme : str
            Name of the scheme.

        Returns
        -------
        RunState or None
            The state; None if there is none.
        """
        path = self._state_path(scheme)
        return read_state(path) if path.exists() else None

    def save_state(self, scheme: str, state: RunState) -> None:
        """Write the state of a scheme, atomically.

        Parameters
        ----------
        scheme : str
            Name of the scheme.
        state : RunState
            State of its run.
        """
        write_state(state, self._state_path(scheme))

    def _state_path(self, scheme: str) -> Path:
        return self.path / f"{_STATE}-{scheme}"

    def save_ledger(self, content: bytes) -> None:
        """Replace the ledger, and delete the write-ahead log of the old one.

        Parameters
        ----------
        content : bytes
            Content of the database file.
        """
        for name in _LEDGER_LOGS:
            (self.path / name).unlink(missing_ok=True)
        self.write(LEDGER, content)

    def save_progress(self, progress: RunProgress) -> None:
        """Write the progress of the run.

        Parameters
        ----------
        progress : RunProgress
            The progress.
        """
        write_progress(self.path, progress)

    def progress(self) -> RunProgress | None:
        """Read the progress of the run.

        Returns
        -------
        RunProgress or None
            The progress; None if no run is under way.
        """
        return read_progress(self.path)


def _find_latest(runs: Path, starting: bool) -> Path:
    names = (LEDGER, JOB) if starting else (LEDGER,)
    found = [file for name in names for file in runs.glob(f"*/{name}") if file.is_file()]
    if not found:
        raise BadInput(f"{runs}/ has no run; give a run folder or a ledger file")
    return max(found, key=lambda file: (file.stat().st_mtime, str(file))).parent
