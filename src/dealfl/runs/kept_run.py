"""What a run of the main job leaves in its folder, and what it can go on from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from dealfl.atomic_files import replace_file
from dealfl.errors import BadBytes, BadInput
from dealfl.runs.folders import JOB, LEDGER
from dealfl.simulate import Outcome
from dealfl.simulate.run_state import RunState, read_state, write_state

__all__ = ["KeptRun"]

_OUTCOMES, _STATE = "outcomes", "state"
_LOGS = (f"{LEDGER}-wal", f"{LEDGER}-shm")  # who looked at the ledger may have left them
_RESULTS = (LEDGER, *_LOGS, "result.json", "report.html", "log.jsonl")


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A folder: outcomes of the schemes that are done, and the state of the one under way."""

    folder: Path

    @property
    def unfinished(self) -> bool:
        """Whether a run was stopped here and can go on."""
        return (self.folder / _OUTCOMES).exists() or bool(self._states())

    def begin(self, job_text: str) -> None:
        """Remove what an earlier run has left, and keep the job as it is run."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name in _RESULTS:
                (self.folder / name).unlink(missing_ok=True)
            self.end()
            self.write(JOB, job_text.encode())
        except OSError as error:
            raise BadInput(
                f"{self.folder} can not be written ({error.strerror}); give another with --out"
            ) from error

    def job_text(self) -> str:
        """Return the job as it is run."""
        path = self.folder / JOB
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def end(self) -> None:
        """Remove what a run could go on from, and what a kill left half written."""
        (self.folder / _OUTCOMES).unlink(missing_ok=True)
        for file in [*self._states(), *self.folder.glob("*.part")]:
            file.unlink()

    def _states(self) -> list[Path]:
        return [file for file in self.folder.glob(f"{_STATE}-*") if file.suffix != ".part"]

    def outcomes(self) -> dict[str, Outcome]:
        """Return what is done already, by scheme."""
        path = self.folder / _OUTCOMES
        if not path.exists():
            return {}
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=dict[str, Outcome])
        except msgspec.MsgspecError as error:
            raise BadBytes(f"{path} is damaged ({error}); begin anew") from error

    def put_outcomes(self, outcomes: dict[str, Outcome]) -> None:
        """Keep what is done; the state of what was under way is not needed any more."""
        self.write(_OUTCOMES, msgspec.msgpack.encode(outcomes))
        for scheme in outcomes:
            self._state(scheme).unlink(missing_ok=True)

    def state(self, scheme: str) -> RunState | None:
        """Return where a scheme was stopped."""
        path = self._state(scheme)
        return read_state(path) if path.exists() else None

    def put_state(self, scheme: str, state: RunState) -> None:
        """Keep where a scheme stands."""
        write_state(state, self._state(scheme))

    def _state(self, scheme: str) -> Path:
        return self.folder / f"{_STATE}-{scheme}"

    def put_ledger(self, content: bytes) -> None:
        """Replace the ledger; no log of the one before may be taken for its own."""
        for name in _LOGS:
            (self.folder / name).unlink(missing_ok=True)
        self.write(LEDGER, content)

    def write(self, name: str, content: bytes) -> Path:
        """Replace a file as a whole, or not at all."""
        return replace_file(self.folder / name, content)
