"""Options and output shared by several commands: --json, the run folder, tables, problems."""

import argparse
import inspect
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dealfl.escaping import for_terminal

if TYPE_CHECKING:
    from dealfl.runs import RunningServer


_SHOWN = 20
_WALL_CLOCK_FROM_S = 1e9


def examples_in(doc: str | None) -> str:
    """Return what follows the first line of a docstring: the examples of a command."""
    return inspect.cleandoc(doc or "").partition("\n\n")[2] + "\n"


def add_json(parser: argparse.ArgumentParser, default: Any = False) -> None:  # noqa: ANN401
    """Add --json to a command.

    An action suppresses the default, which would override a --json before the action.
    """
    text = "print one JSON object"
    parser.add_argument("--json", action="store_true", default=default, help=text)


def add_processes(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --processes to a command."""
    cores = os.cpu_count() or 1
    parser.add_argument("--processes", type=int, default=cores, metavar="N", help=text)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the run folder, which is optional, to a command."""
    text = "run folder, ledger file, or credentials of an operator (default: the latest in runs/)"
    parser.add_argument("run_folder", nargs="?", default="", metavar="RUN", help=text)


def open_server(path: str) -> "RunningServer | None":
    """Return the running server that credentials lead to; None if the path is a run."""
    from dealfl.runs import RunningServer

    file = Path(path)
    leads = path.endswith(".toml") and file.is_file() and b"[broker]" in file.read_bytes()
    return RunningServer(file) if leads else None


def say(text: object, *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print lines; a terminal obeys none of their control characters."""
    lines = str(text).split("\n")
    print("\n".join(map(for_terminal, lines)), file=file, end=end, flush=flush)


def format_moment(time_s: float) -> str:
    """Return a time of the server's clock: date and time, or hours if the clock is virtual."""
    if time_s < _WALL_CLOCK_FROM_S:
        return f"{time_s / 3600.0:.1f} h"
    return time.strftime("%d %b %H:%M:%S", time.localtime(time_s))


def format_table(table: Sequence[Sequence[str]], indent: str = "") -> str:
    """Return rows with aligned columns."""
    table = [[for_terminal(cell) for cell in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [map(str.ljust, row, widths) for row in table]
    return "\n".join((indent + "  ".join(cells)).rstrip() for cells in lines)


def print_result(arguments: argparse.Namespace, plain: object, text: str) -> int:
    """Print a result: with --json as one object, otherwise as text. Return exit code 0."""
    say(json.dumps(plain) if arguments.json else text, flush=True)
    return 0


def print_problems(problems: Sequence[object]) -> None:
    """Print the first problems and the number of others to standard error."""
    for problem in problems[:_SHOWN]:
        say(f"dealfl: {problem}", file=sys.stderr)
    if len(problems) > _SHOWN:
        say(f"dealfl: and {len(problems) - _SHOWN:,} more", file=sys.stderr)
