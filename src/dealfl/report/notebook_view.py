"""Progress where it is wanted: in a notebook's cell, in a terminal, or nowhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO

from dealfl.report.live import LiveView, view_for
from dealfl.report.progress_lines import PlainView

__all__ = ["NotebookView", "SilentView", "choose_line", "choose_view"]


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
        A view for a notebook, a terminal or a file.
    """
    return _quiet_or_notebook(stream, verbose) or view_for(stream, title)


def choose_line(stream: TextIO, verbose: bool = True) -> PlainView:
    """Return what shows a sweep as one line.

    Parameters
    ----------
    stream
        Where to write outside a notebook.
    verbose
        False shows nothing.

    Returns
    -------
    PlainView
        A line for a notebook, a terminal or a file.
    """
    return _quiet_or_notebook(stream, verbose) or PlainView(stream)


def _quiet_or_notebook(stream: TextIO, verbose: bool) -> PlainView | None:
    if not verbose:
        return SilentView(stream)
    return NotebookView(stream) if _in_notebook() else None


def _in_notebook() -> bool:
    """Return whether code runs in the kernel of a notebook; nothing is imported to find out."""
    interactive: Any = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return getattr(shell, "kernel", None) is not None


class SilentView(PlainView):
    """Shows nothing.

    Parameters
    ----------
    stream : TextIO
        Where other views print.
    clock : callable, optional
        Returns the time in seconds.
    """

    def show(self, make: Callable[[], str]) -> None:
        """Show nothing."""


class NotebookView(PlainView):
    """Shows one line in the output of a cell, which changes and is removed in the end.

    Parameters
    ----------
    stream : TextIO
        Not used; a cell has its own output.
    clock : callable, optional
        Returns the time in seconds.
    """

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
