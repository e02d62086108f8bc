"""Live progress of a run as a panel on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TextIO

from dealfl.escaping import for_terminal
from dealfl.report.progress import PlainView, Remaining, choose_line
from dealfl.report.wording import format_duration, format_energy, format_quality
from dealfl.runs import Watcher
from dealfl.simulate import Outcome, Progress

__all__ = ["LiveView", "choose_view"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_SHOWN_EVERY_S = 0.1


def choose_view(stream: TextIO, title: str, verbose: bool = True) -> LiveView | PlainView:
    """Return what shows a run.

    Parameters
    ----------
    stream
        Where to write outside a notebook.
    title
        Name of the job.
    verbose
        False shows nothing.

    Returns
    -------
    LiveView or PlainView
        A panel on a terminal if rich is installed, else a line for a notebook or a file.
    """
    line = choose_line(stream, verbose)
    if type(line) is PlainView and stream.isatty():
        try:
            return LiveView(stream, title)
        except ImportError:
            pass
    return line


class LiveView(Watcher):
    """The progress of a run as a panel with rounds, workers, quality, energy and examples.

    Parameters
    ----------
    stream : file
        Terminal.
    title : str
        Title of the panel.
    clock : callable, default time.monotonic
        Returns the time in seconds.

    Raises
    ------
    ImportError
        If rich is not installed.
    """

    def __init__(
        self, stream: TextIO, title: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        from rich.console import Console
        from rich.live import Live

        self._title, self._clock = title, clock
        self._scheme, self._place, self._of = "", 0, 0
        self._qualities: list[float] = []
        self._seen_round = 0
        self._next_s = 0.0
        self._done: list[Outcome] = []
        self._progress: Progress | None = None
        self._remaining = Remaining()
        console = Console(file=stream, markup=False, emoji=False)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the panel."""
        self._live.stop()

    def start_scheme(self, scheme: str, place: int, of: int) -> None:
        """Start a scheme."""
        self._scheme, self._place, self._of = scheme, place, of
        self._remaining.start_scheme(place, of)
        self._qualities, self._seen_round, self._progress = [], 0, None
        self._show()

    def show_progress(self, progress: Progress) -> None:
        """Show the progress of the scheme."""
        self._progress = progress
        self._remaining.update(progress.rounds, progress.of_rounds, self._clock())
        if progress.quality is not None and progress.rounds > self._seen_round:
            self._qualities.append(progress.quality)
            self._seen_round = progress.rounds
        if self._clock() >= self._next_s:
            self._next_s = self._clock() + _SHOWN_EVERY_S
            self._show()

    def finish_scheme(self, outcome: Outcome) -> None:
        """Show the outcome of a scheme."""
        self._done.append(outcome)
        self._show()

    def _show(self) -> None:
        self._live.update(self._panel(), refresh=True)

    def _panel(self) -> Any:  # noqa: ANN401 - a renderable of rich
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", justify="right")
        rows.add_column()
        for name, shown in self._lines():
            rows.add_row(name, shown)
        place = f" · {self._scheme} ({self._place} of {self._of})"
        title = Text(for_terminal(self._title) + place)  # a plain string would be markup
        return Panel(rows, title=title, subtitle="Ctrl-C stops; --resume continues", expand=False)

    def _lines(self) -> list[tuple[str, Any]]:
        from rich.progress_bar import ProgressBar

        lines: list[tuple[str, Any]] = [("", "reading the data …")]
        if self._place > 1 or self._progress is not None:
            bar = ProgressBar(total=1.0, completed=self._remaining.share, width=44)
            lines = [("whole run", str(self._remaining)), ("", bar)]
        if self._progress is not None:
            lines += _present(self._progress, self._qualities)
        for outcome in self._done:
            quality, energy = format_quality(outcome.quality), outcome.energy.compute_j
            lines.append((outcome.scheme, f"{quality}  {format_energy(energy)} computing"))
        return lines


def _present(progress: Progress, qualities: list[float]) -> list[tuple[str, Any]]:
    awake = progress.workers - progress.asleep
    workers = f"{awake} awake, {progress.selected} of them selected, {progress.asleep} asleep"
    computing, radio = format_energy(progress.compute_j), format_energy(progress.radio_j)
    last = progress.last
    took = "–" if last is None else f"{format_duration(last.duration_s)}, by {last.reason}"
    return [
        ("rounds", f"{progress.rounds} of {progress.of_rounds}"),
        ("workers", workers),
        ("quality", f"{sparkline(qualities)}  {format_quality(progress.quality)}"),
        ("energy, modelled", f"{computing} computing, {radio} radio"),
        ("examples", f"{progress.learned:,} learned, {progress.evicted:,} forgotten"),
        ("last round", took),
    ]


def sparkline(values: list[float], width: int = 32) -> str:
    """Return the last values as small blocks, scaled from their minimum to their maximum.

    >>> sparkline([0.1, 0.5, 0.9])
    '▁▅█'
    """
    shown = values[-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0
    return "".join(_BLOCKS[round((value - low) / span * (len(_BLOCKS) - 1))] for value in shown)
