"""Progress as lines of text: one changing line on a terminal, separate lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from dealfl.report.formats import format_duration, format_energy, format_quality
from dealfl.report.remaining import Remaining
from dealfl.simulate import Outcome, Progress, SweepProgress

__all__ = ["PlainView", "ProgressLine"]

_CHANGED_EVERY_S = 0.2
_LINE_EVERY_S = 5.0
_LINE_AFTER_S = 2.0


class ProgressLine:
    """One changing line on a terminal; elsewhere a line every few seconds.

    Parameters
    ----------
    stream : file
        Text stream.
    clock : callable, default time.monotonic
        Returns the time in seconds.
    """

    _live = False

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._live = self._live or stream.isatty()
        self._next_s = clock() + (_CHANGED_EVERY_S if self._live else _LINE_AFTER_S)
        self._width = 0

    def show_sweep(self, progress: SweepProgress) -> None:
        """Show the progress of a sweep, if an update is due.

        Parameters
        ----------
        progress : SweepProgress
            Current progress.
        """
        self.show(lambda: _describe(progress))

    def show(self, make: Callable[[], str]) -> None:
        """Show a text, if an update is due.

        Parameters
        ----------
        make : callable
            Returns the text; called only if an update is due.
        """
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._next_s = now_s + (_CHANGED_EVERY_S if self._live else _LINE_EVERY_S)
        self._put(make())

    def _put(self, text: str) -> None:
        if self._live:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()


class PlainView(ProgressLine):
    """The progress of a run as one changing line, or as lines every few seconds.

    Parameters
    ----------
    stream : file
        Text stream.
    clock : callable, default time.monotonic
        Returns the time in seconds.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock)
        self._scheme, self._remaining = "", Remaining()

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line."""
        self.clear()

    def start_scheme(self, scheme: str, place: int, of: int) -> None:
        """Start a scheme.

        Parameters
        ----------
        scheme : str
            Name of the scheme.
        place, of : int
            Position of the scheme, counted from 1, and number of schemes.
        """
        self._scheme = f"{scheme} ({place} of {of})"
        self._remaining.start_scheme(place, of)

    def show_progress(self, progress: Progress) -> None:
        """Show the progress of the scheme, if an update is due.

        Parameters
        ----------
        progress : Progress
            Current progress.
        """
        self._remaining.update(progress.rounds, progress.of_rounds, self._clock())
        self.show(
            lambda: (
                f"{self._scheme}: round {progress.rounds} of {progress.of_rounds}, "
                f"quality {format_quality(progress.quality)}, "
                f"{format_energy(progress.compute_j + progress.radio_j)}; "
                f"whole run {self._remaining}"
            )
        )

    def finish_scheme(self, outcome: Outcome) -> None:
        """Show nothing: the summary follows at the end.

        Parameters
        ----------
        outcome : Outcome
            Ignored.
        """


def _describe(progress: SweepProgress) -> str:
    inside, which = progress.inside, ""
    if progress.of_simulations > 1:
        which = f"simulation {progress.simulation} of {progress.of_simulations}, "
    return (
        f"{which}round {inside.rounds} of {inside.of_rounds}, "
        f"{format_duration(inside.virtual_s)} virtual time, "
        f"quality {format_quality(inside.quality)}"
    )
