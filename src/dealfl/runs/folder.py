"""The folder of a run: job, ledger, results, and what a stopped run resumes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from dealfl.atomic_files import is_disk_failure, refused_write, replace_file
from dealfl.errors import BadBytes, BadInput, DealError
from dealfl.jobs import Document
from dealfl.simulate import Outcome, RunState, read_state, write_state

__all__ = ["JOB", "RunFolder"]

LEDGER, JOB, RUNS = "ledger.db", "job.toml", "runs"

_OUTCOMES, _STATE = "outcomes", "state"
_LEDGER_LOGS = (f"{LEDGER}-wal", f"{LEDGER}-shm")  # a reader of the ledger may have left them
_RESULTS = (LEDGER, *_LEDGER_LOGS, "result.json", "report.html", "log.jsonl")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run; the ledger may also stand alone, under any name."""

    path: Path
    ledger_name: str = LEDGER

    @classmethod
    def at(cls, path: str | Path = "") -> RunFolder:
        """Return the run of a folder or of a ledger file; no path means the latest in runs/."""
        place = Path(path) if path else _find_latest(Path(RUNS))
        run = cls(place) if place.is_dir() else cls(place.parent, place.name)
        if not run.ledger.is_file():
            what = f"no {LEDGER} in the folder {place}" if place.is_dir() else f"no file {place}"
            raise BadInput(f"there is {what}; name a run folder, or the file of a ledger")
        return run

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.path / self.ledger_name

    @property
    def job(self) -> Path | None:
        """The job file, if there is one."""
        job = self.path / JOB
        return job if job.is_file() else None

    def job_text(self) -> str:
        """Return the job as it is run; empty if it is not known."""
        return "" if self.job is None else self.job.read_text(encoding="utf-8")

    def document(self) -> Document | None:
        """Return the job file as it was read, if there is one."""
        return None if self.job is None else Document.read(self.job)

    def write(self, name: str, content: bytes) -> Path:
        """Replace a file as a whole, or not at all."""
        return replace_file(self.path / name, content)

    # -- start and resume -----------------------------------------------------------------------

    @property
    def resumable(self) -> bool:
        """Whether a run was stopped here and can be resumed."""
        return (self.path / _OUTCOMES).exists() or bool(self._states())

    def prepare(self, job_text: str) -> None:
        """Remove the files of an earlier run, and write the job as it is run."""
        try:
            self._make()
            for name in _RESULTS:
                (self.path / name).unlink(missing_ok=True)
            self.discard_state()
            self.write(JOB, job_text.encode())
        except OSError as error:
            raise self._refused(error) from error

    def _make(self) -> None:
        """Make the folder; a new runs/ is ignored by git, as it may hold people's data."""
        fresh = self.path.parent == Path(RUNS) and not self.path.parent.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        if fresh:
            (self.path.parent / ".gitignore").write_text("# made by dealfl\n*\n")

    def _refused(self, error: OSError) -> DealError:
        if is_disk_failure(error):
            return refused_write(self.path, error)
        return BadInput(
            f"{self.path} cannot be written ({error.strerror}); give another folder with --out"
        )

    def discard_state(self) -> None:
        """Remove what a run could resume from, and files that a kill left half written."""
        (self.path / _OUTCOMES).unlink(missing_ok=True)
        for file in [*self._states(), *self.path.glob("*.part")]:
            file.unlink()

    def _states(self) -> list[Path]:
        return [file for file in self.path.glob(f"{_STATE}-*") if file.suffix != ".part"]

    def outcomes(self) -> dict[str, Outcome]:
        """Return the outcomes of the schemes that are done."""
        path = self.path / _OUTCOMES
        if not path.exists():
            return {}
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=dict[str, Outcome])
        except msgspec.MsgspecError as error:
            raise BadBytes(f"{path} is damaged ({error}); begin anew") from error

    def save_outcomes(self, outcomes: dict[str, Outcome]) -> None:
        """Write the outcomes of the schemes that are done, and remove their states."""
        self.write(_OUTCOMES, msgspec.msgpack.encode(outcomes))
        for scheme in outcomes:
            self._state_path(scheme).unlink(missing_ok=True)

    def state(self, scheme: str) -> RunState | None:
        """Return where a scheme was stopped."""
        path = self._state_path(scheme)
        return read_state(path) if path.exists() else None

    def save_state(self, scheme: str, state: RunState) -> None:
        """Write where a scheme stands."""
        write_state(state, self._state_path(scheme))

    def _state_path(self, scheme: str) -> Path:
        return self.path / f"{_STATE}-{scheme}"

    def save_ledger(self, content: bytes) -> None:
        """Replace the ledger; a log of the old one must not be read into it."""
        for name in _LEDGER_LOGS:
            (self.path / name).unlink(missing_ok=True)
        self.write(LEDGER, content)


def _find_latest(runs: Path) -> Path:
    found = [ledger for ledger in runs.glob(f"*/{LEDGER}") if ledger.is_file()]
    if not found:
        raise BadInput(f"there is no run in {runs}/; name a run folder, or the file of a ledger")
    return max(found, key=lambda ledger: (ledger.stat().st_mtime, str(ledger))).parent
