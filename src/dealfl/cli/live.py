"""The live view of a job: a panel that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from dealfl.simulate import Outcome, Progress

__all__ = ["LiveView", "PlainView", "view_for"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_TOLD_EVERY_S = 2.0
_STILL_ALIVE_S = 8.0
_SHOWN_EVERY_S = 0.1


def view_for(stream: TextIO, title: str) -> LiveView | PlainView:
    """Return the view that a stream can show."""
    if stream.isatty():
        try:
            return LiveView(stream, title)
        except ImportError:
            pass
    return PlainView(stream)


class PlainView:
    """Says in one line what is going on, every two seconds at most."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._next_s = 0.0
        self._scheme = ""
        self._told_round = -1

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind."""

    def start_scheme(self, scheme: str, place: int, of: int) -> None:
        """Say whose turn it is."""
        self._scheme = f"{scheme} ({place} of {of})"
        self._next_s, self._told_round = self._clock() + _TOLD_EVERY_S, -1

    def show_progress(self, progress: Progress) -> None:
        """Say how far it is, if it is time to and there is something new, or after a while."""
        now_s = self._clock()
        new = progress.rounds != self._told_round or now_s >= self._next_s + _STILL_ALIVE_S
        if now_s >= self._next_s and new:
            self._next_s, self._told_round = now_s + _TOLD_EVERY_S, progress.rounds
            quality = "" if progress.quality is None else f", quality {progress.quality:.4f}"
            print(
                f"{self._scheme}: round {progress.rounds} of {progress.of_rounds}{quality}, "
                f"{progress.compute_j + progress.radio_j:.1f} J",
                file=self._stream,
                flush=True,
            )

    def finish_scheme(self, outcome: Outcome) -> None:
        """Say nothing: the summary comes at the end."""


class LiveView:
    """A panel with rounds, workers, quality, energy and what was forgotten."""

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
        console = Console(file=stream)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the panel away."""
        self._live.stop()

    def start_scheme(self, scheme: str, place: int, of: int) -> None:
        """Show whose turn it is."""
        self._scheme, self._place, self._of = scheme, place, of
        self._qualities, self._seen_round, self._progress = [], 0, None
        self._show()

    def show_progress(self, progress: Progress) -> None:
        """Show how far it is."""
        self._progress = progress
        if progress.quality is not None and progress.rounds > self._seen_round:
            self._qualities.append(progress.quality)
            self._seen_round = progress.rounds
        if self._clock() >= self._next_s:
            self._next_s = self._clock() + _SHOWN_EVERY_S
            self._show()

    def finish_scheme(self, outcome: Outcome) -> None:
        """Keep what came out in sight."""
        self._done.append(outcome)
        self._show()

    def _show(self) -> None:
        self._live.update(self._panel(), refresh=True)

    def _panel(self) -> Any:  # noqa: ANN401 - something that rich can show
        from rich.panel import Panel
        from rich.table import Table

        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", justify="right")
        rows.add_column()
        for name, shown in self._lines():
            rows.add_row(name, shown)
        title = f"{self._title} · {self._scheme} ({self._place} of {self._of})"
        return Panel(rows, title=title, subtitle="Ctrl-C stops; --resume goes on", expand=False)

    def _lines(self) -> list[tuple[str, Any]]:
        lines: list[tuple[str, Any]] = []
        if self._progress is not None:
            lines += _present(self._progress, self._qualities)
        for outcome in self._done:
            quality = "–" if outcome.quality is None else f"{outcome.quality:.4f}"
            lines.append((outcome.scheme, f"{quality}  {outcome.energy.compute_j:.2f} J computing"))
        return lines or [("", "reading the data …")]


def _present(progress: Progress, qualities: list[float]) -> list[tuple[str, Any]]:
    from rich.progress_bar import ProgressBar

    awake = progress.workers - progress.asleep
    last = progress.last
    return [
        ("rounds", f"{progress.rounds} of {progress.of_rounds}"),
        ("", ProgressBar(total=progress.of_rounds, completed=progress.rounds, width=44)),
        (
            "workers",
            f"{awake} awake, {progress.selected} of them selected, {progress.asleep} asleep",
        ),
        ("quality", f"{sparkline(qualities)}  {_figure(progress.quality)}"),
        (
            "energy, modelled",
            f"{progress.compute_j:.2f} J computing, {progress.radio_j:.1f} J radio",
        ),
        ("examples", f"{progress.learned:,} learned, {progress.evicted:,} forgotten"),
        ("last round", "–" if last is None else f"{last.duration_s:.2f} s, by {last.reason}"),
    ]


def _figure(quality: float | None) -> str:
    return "–" if quality is None else f"{quality:.4f}"


def sparkline(values: list[float], width: int = 32) -> str:
    """Return the last values as small blocks, from the lowest to the highest of them.

    >>> sparkline([0.1, 0.5, 0.9])
    '▁▅█'
    """
    shown = values[-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0
    return "".join(_BLOCKS[round((value - low) / span * (len(_BLOCKS) - 1))] for value in shown)
