"""Where the parts of a run lie: a run folder, or a ledger alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dealfl.errors import BadInput
from dealfl.jobs import Document

__all__ = ["JOB", "LEDGER", "RUNS", "RunFolder"]

LEDGER, JOB, RUNS = "ledger.db", "job.toml", "runs"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A ledger, and the job file beside it where there is one."""

    ledger: Path
    job: Path | None = None

    @classmethod
    def at(cls, path: str | Path = "") -> RunFolder:
        """Return the run of a folder or of a ledger file; no path means the latest in runs/."""
        place = Path(path) if path else _latest(Path(RUNS))
        ledger = place / LEDGER if place.is_dir() else place
        if not ledger.is_file():
            what = f"no {LEDGER} in the folder {place}" if place.is_dir() else f"no file {place}"
            raise BadInput(f"there is {what}; name a run folder, or the file of a ledger")
        job = ledger.parent / JOB
        return cls(ledger, job if job.is_file() else None)

    def document(self) -> Document | None:
        """Return the job file, if there is one."""
        return None if self.job is None else Document.read(self.job)


def _latest(runs: Path) -> Path:
    found = [ledger for ledger in runs.glob(f"*/{LEDGER}") if ledger.is_file()]
    if not found:
        raise BadInput(f"there is no run in {runs}/; name a run folder, or the file of a ledger")
    return max(found, key=lambda ledger: (ledger.stat().st_mtime, str(ledger))).parent
