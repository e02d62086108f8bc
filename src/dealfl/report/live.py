"""Views of a run in progress: a table, lines in a file, one line on a terminal or in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from dealfl.errors import argument
from dealfl.escaping import for_terminal
from dealfl.report.wording import format_age, format_duration, format_energy, format_quality
from dealfl.runs import Watcher
from dealfl.simulate import Outcome, Progress, SweepProgress

_CHANGED_EVERY_S = 0.2
_LINE_EVERY_S = 5.0
_LINE_AFTER_S = 2.0
_LEAST_SHARE = 0.02
_LEAST_S = 1.0


class Remaining:
    """The share of a run that is done, and an estimate of the time left.

    Each scheme counts the same. The estimate is proportional: a run that did a tenth of its work in
    a minute has nine minutes left. Work of an earlier run that was resumed does not count.

    Examples
    --------
    >>> run = Remaining()
    >>> run.start_scheme(1, of=2)
    >>> run.update(0.0, now_s=0.0)
    >>> run.update(0.4, now_s=8.0)
    >>> run.share, run.left_s, str(run)
    (0.2, 32.0, '20 %, about 32 s left')
    """

    def __init__(self) -> None:
        self._before, self._schemes = 0, 1
        self._start: tuple[float, float] | None = None
        self._now_s = 0.0
        self.share = 0.0

    def start_scheme(self, number: int, of: int) -> None:
        """Start a scheme; `number` is counted from 1."""
        self._before, self._schemes = number - 1, of
        self.share = self._before / of

    def update(self, inside: float, now_s: float) -> None:
        """Note the share of the scheme that is done at a time."""
        self.share, self._now_s = (self._before + inside) / self._schemes, now_s
        if self._start is None:
            self._start = self.share, now_s

    def note_sweep(self, progress: SweepProgress, now_s: float) -> None:
        """Note which simulation of a sweep is under way, or how many are done."""
        inside, done = progress.inside, progress.simulation
        if inside is None:
            self.start_scheme(done + 1, progress.of_simulations)
            self.update(0.0, now_s)
        else:
            self.start_scheme(done, progress.of_simulations)
            self.update(inside.share, now_s)

    @property
    def left_s(self) -> float | None:
        """The time that is left, in seconds; None as long as nothing can be said."""
        if self._start is None:
            return None
        done, took_s = self.share - self._start[0], self._now_s - self._start[1]
        if done < _LEAST_SHARE or took_s < _LEAST_S:
            return None
        return took_s * (1.0 - self.share) / done

    def __str__(self) -> str:
        left = "" if self.left_s is None else f", about {format_age(self.left_s)} left"
        return f"{self.share:.0%}".replace("%", " %") + left


class ProgressLine:
    """One changing line on a terminal; elsewhere a line every few seconds."""

    _live = False

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._live = self._live or stream.isatty()
        self._next_s = clock() + (_CHANGED_EVERY_S if self._live else _LINE_AFTER_S)
        self._width = 0
        self._sweep = Remaining()

    def show_sweep(self, progress: SweepProgress) -> None:
        """Show the progress of a sweep and the time that it has left, if an update is due."""
        self._sweep.note_sweep(progress, self._clock())
        self.show(lambda: _describe(progress, self._sweep))

    def show(self, make: Callable[[], str]) -> None:
        """Show a text, if an update is due."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._next_s = now_s + (_CHANGED_EVERY_S if self._live else _LINE_EVERY_S)
        self._put(make())

    def _put(self, text: str) -> None:
        text = for_terminal(text)
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


class PlainView(ProgressLine, Watcher):
    """The progress of a run as one changing line, or as lines every few seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock)
        self._scheme, self._remaining = "", Remaining()

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line."""
        self.clear()

    def start_scheme(self, scheme: str, number: int, of: int) -> None:
        """Start a scheme."""
        self._scheme = f"{scheme} ({number} of {of})"
        self._remaining.start_scheme(number, of)

    def show_progress(self, progress: Progress) -> None:
        """Show the progress of the scheme, if an update is due."""
        self._remaining.update(progress.share, self._clock())
        self.show(
            lambda: (
                f"{self._scheme}: {progress}, "
                f"quality {format_quality(progress.quality)}, "
                f"{format_energy(progress.compute_j + progress.radio_j)}; "
                f"whole run {self._remaining}"
            )
        )

    def finish_scheme(self, outcome: Outcome) -> None:
        """Show nothing: the summary follows at the end."""


class SilentView(PlainView):
    """Shows nothing."""

    def show(self, make: Callable[[], str]) -> None:
        """Show nothing."""


class NotebookView(PlainView):
    """Shows one line in the output of a cell, which changes and is removed in the end."""

    _live = True
    _handle: Any = None

    def _put(self, text: str) -> None:
        content = {"text/plain": text}
        if self._handle is None:
            display = sys.modules["IPython"].display  # a kernel has loaded it
            self._handle = display.display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._handle is not None:
            self._put("")


def choose_line(stream: TextIO, verbose: bool = True) -> PlainView:
    """Return what shows progress as one line."""
    if not verbose:
        return SilentView(stream)
    interactive: Any = sys.modules.get("IPython")  # not imported to find out
    shell = None if interactive is None else interactive.get_ipython()
    in_notebook = getattr(shell, "kernel", None) is not None
    return NotebookView(stream) if in_notebook else PlainView(stream)


def _describe(progress: SweepProgress, remaining: Remaining) -> str:
    inside, of = progress.inside, progress.of_simulations
    if inside is None:
        return f"{progress.simulation} of {of} simulations, {remaining}"
    which = f"simulation {progress.simulation} of {of}, " if of > 1 else ""
    return (
        f"{which}{inside}, "
        f"{format_duration(inside.virtual_s)} virtual time, "
        f"quality {format_quality(inside.quality)}; {remaining}"
    )


_BLOCKS = "▁▂▃▄▅▆▇█"
_SHOWN_EVERY_S = 0.1
_DRAWN = 32  # values of a curve


def choose_view(stream: TextIO, title: str, verbose: bool = True) -> LiveView | PlainView:
    """Return what shows a run."""
    line = choose_line(stream, verbose)
    if type(line) is PlainView and stream.isatty():
        try:
            return LiveView(stream, title)
        except ImportError:
            pass
    return line


class LiveView(Watcher):
    """The progress of a run as a panel with rounds, workers, quality, energy and examples."""

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

    def start_scheme(self, scheme: str, number: int, of: int) -> None:
        """Start a scheme."""
        self._scheme, self._place, self._of = scheme, number, of
        self._remaining.start_scheme(number, of)
        self._qualities, self._seen_round, self._progress = [], 0, None
        self._show()

    def show_progress(self, progress: Progress) -> None:
        """Show the progress of the scheme."""
        self._progress = progress
        self._remaining.update(progress.share, self._clock())
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
        scheme = f" · {self._scheme} ({self._place} of {self._of})"
        title = Text(for_terminal(self._title) + scheme)  # a plain string would be markup
        return Panel(
            rows,
            title=title,
            subtitle=f"Ctrl-C stops; {argument('resume', True)} continues",
            expand=False,
        )

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
        ("rounds", str(progress).removeprefix("round ")),
        ("workers", workers),
        ("quality", f"{sparkline(qualities)}  {format_quality(progress.quality)}"),
        ("energy, modelled", f"{computing} computing, {radio} radio"),
        ("examples", f"{progress.learned:,} learned, {progress.evicted:,} forgotten"),
        ("last round", took),
    ]


def sparkline(values: list[float]) -> str:
    """Return the last values as small blocks, scaled from their minimum to their maximum.

    >>> sparkline([0.1, 0.5, 0.9])
    '▁▅█'
    """
    shown = values[-_DRAWN:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0
    return "".join(_BLOCKS[round((value - low) / span * (len(_BLOCKS) - 1))] for value in shown)
