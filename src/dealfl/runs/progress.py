"""The progress of a run, in a small file that `dealfl status` reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec

from dealfl.simulate import Outcome, Progress

__all__ = ["PROGRESS", "NotedProgress", "RunProgress", "Watcher", "read_progress", "write_progress"]

PROGRESS = "progress.json"
_WRITTEN_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The scheme that a run executes, and its rounds.

    Parameters
    ----------
    scheme : str
        Name of the scheme.
    place, of : int
        Position of the scheme, counted from 1, and number of schemes.
    rounds, of_rounds : int
        Closed rounds of the scheme, and rounds that the job requests; 0 while it reads the data.
    updated_s : float
        Time of the last report, in seconds since 1970.
    stopped : bool, default False
        Whether the run was stopped.
    """

    scheme: str
    place: int
    of: int
    rounds: int
    of_rounds: int
    updated_s: float
    stopped: bool = False


def read_progress(folder: Path) -> RunProgress | None:
    """Return the progress of the run in a folder; None if no run is under way."""
    try:
        return msgspec.json.decode((folder / PROGRESS).read_bytes(), type=RunProgress)
    except (OSError, msgspec.MsgspecError):
        return None


def write_progress(folder: Path, progress: RunProgress) -> None:
    """Write the progress of the run in a folder; a failure to write is ignored."""
    draft = folder / f"{PROGRESS}.part"
    with suppress(OSError):
        try:
            draft.write_bytes(msgspec.json.encode(progress))
            draft.replace(folder / PROGRESS)
        finally:
            draft.unlink(missing_ok=True)


class Watcher(Protocol):
    """Receives the progress of a run, for display."""

    def start_scheme(self, scheme: str, place: int, of: int) -> None:
        """Start a scheme.

        Parameters
        ----------
        scheme : str
            Name of the scheme.
        place, of : int
            Position of the scheme, counted from 1, and number of schemes.
        """

    def show_progress(self, progress: Progress) -> None:
        """Show the progress of the scheme.

        Parameters
        ----------
        progress : Progress
            Current progress.
        """

    def finish_scheme(self, outcome: Outcome) -> None:
        """Show the outcome of the scheme.

        Parameters
        ----------
        outcome : Outcome
            Outcome of the scheme.
        """


class NotedProgress:
    """A watcher that saves the progress once a second, and calls another watcher.

    Parameters
    ----------
    watcher : Watcher
        The other watcher.
    note : callable
        Saves a `RunProgress`.
    clock : callable, default time.time
        Returns the time in seconds since 1970.
    """

    def __init__(
        self,
        watcher: Watcher,
        note: Callable[[RunProgress], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._watcher, self._note, self._clock = watcher, note, clock
        self._last = RunProgress("", 0, 0, 0, 0, clock())

    def start_scheme(self, scheme: str, place: int, of: int) -> None:
        """Save which scheme starts."""
        self._last = RunProgress(scheme, place, of, 0, 0, self._clock())
        self._note(self._last)
        self._watcher.start_scheme(scheme, place, of)

    def show_progress(self, progress: Progress) -> None:
        """Save the number of closed rounds, if the last save is old."""
        rounds, of_rounds, now_s = progress.rounds, progress.of_rounds, self._clock()
        if now_s - self._last.updated_s >= _WRITTEN_EVERY_S or not self._last.of_rounds:
            self._last = replace(self._last, rounds=rounds, of_rounds=of_rounds, updated_s=now_s)
            self._note(self._last)
        self._watcher.show_progress(progress)

    def finish_scheme(self, outcome: Outcome) -> None:
        """Pass the outcome to the other watcher."""
        self._watcher.finish_scheme(outcome)

    def stop(self) -> None:
        """Save that the run was stopped."""
        self._note(replace(self._last, stopped=True, updated_s=self._clock()))
