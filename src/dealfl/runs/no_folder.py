"""The twin of a run's folder, for a run that leaves no files."""

from __future__ import annotations

from dataclasses import dataclass

from dealfl.runs.progress import RunProgress
from dealfl.simulate import Outcome, RunState

__all__ = ["NoFolder"]


@dataclass(frozen=True, slots=True)
class NoFolder:
    """The twin of a folder for a run that leaves no files and cannot be resumed.

    Parameters
    ----------
    text
        The job as it is run.
    """

    text: str

    def job_text(self) -> str:
        """Return the job as it is run."""
        return self.text

    def outcomes(self) -> dict[str, Outcome]:
        """Return no outcomes."""
        return {}

    def save_outcomes(self, outcomes: dict[str, Outcome]) -> None:
        """Write nothing.

        Parameters
        ----------
        outcomes : dict
            Ignored.
        """

    def state(self, scheme: str) -> None:
        """Return nothing to resume from.

        Parameters
        ----------
        scheme : str
            Ignored.
        """

    def save_state(self, scheme: str, state: RunState) -> None:
        """Write nothing.

        Parameters
        ----------
        scheme, state
            Ignored.
        """

    def save_ledger(self, content: bytes) -> None:
        """Write nothing.

        Parameters
        ----------
        content : bytes
            Ignored.
        """

    def save_progress(self, progress: RunProgress) -> None:
        """Write nothing.

        Parameters
        ----------
        progress : RunProgress
            Ignored.
        """
