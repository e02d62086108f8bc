"""The progress of a run: who receives it, and what `dealfl status` reads of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from dealfl.simulate import Outcome, Progress

__all__ = ["NotedProgress", "RunProgress", "Watcher"]

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


class NotedProgress(Watcher):
    """A watcher that saves the progress once a second, and calls another watcher."""

    def __init__(
        self,
        watcher: Watcher,
        save: Callable[[RunProgress], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._watcher, self._save, self._clock = watcher, save, clock
        self._last = RunProgress("", 0, 0, 0, 0, clock())

    def _note(self, progress: RunProgress) -> None:
        self._last = replace(progress, updated_s=self._clock())
        self._save(self._last)

    def start_scheme(self, scheme: str, place: int, of: int) -> None:
        """Save which scheme starts."""
        self._note(RunProgress(scheme, place, of, 0, 0, 0.0))
        self._watcher.start_scheme(scheme, place, of)

    def show_progress(self, progress: Progress) -> None:
        """Save the number of closed rounds, if the last save is old."""
        last = self._last
        if self._clock() - last.updated_s >= _WRITTEN_EVERY_S or not last.of_rounds:
            self._note(replace(last, rounds=progress.rounds, of_rounds=progress.of_rounds))
        self._watcher.show_progress(progress)

    def finish_scheme(self, outcome: Outcome) -> None:
        """Pass the outcome to the other watcher."""
        self._watcher.finish_scheme(outcome)

    def stop(self) -> None:
        """Save that the run was stopped."""
        self._note(replace(self._last, stopped=True))
