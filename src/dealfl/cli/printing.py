"""Options and output shared by several commands: --json, the run, tables, problems."""

import argparse
import inspect
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from dealfl.errors import BadInput
from dealfl.escaping import for_terminal

if TYPE_CHECKING:
    from dealfl.runs import RunFolder, RunningServer


_SHOWN = 20
_WALL_CLOCK_FROM_S = 1e9


Option = Callable[[argparse._ActionsContainer], object]
"""Adds an option to the parser of a command, or to a group of its options."""


def option(*names: str, **properties: Any) -> Option:  # noqa: ANN401 - those of argparse
    """Return an option, as argparse describes it."""
    return lambda parser: parser.add_argument(*names, **properties)


def seconds(text: str) -> float:
    """Return a time that an option takes.

    >>> seconds("2.5")
    2.5
    """
    number = float(text)
    if not 0.0 <= number < math.inf:
        raise ValueError(text)
    return number


def port(help_text: str) -> Option:
    """Return the option --port."""

    def number(text: str) -> int:
        if not 0 <= int(text) < 1 << 16:
            raise argparse.ArgumentTypeError(f"{text} is no port; give 0 to 65535")
        return int(text)

    number.__name__ = "port"  # in the message of argparse
    return option("--port", type=number, default=0, help=help_text)


def processes(text: str) -> Option:
    """Return the option --processes."""
    return option("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help=text)


def values(text: str) -> Option:
    """Return the option --set."""
    properties = {"action": "append", "default": [], "dest": "values", "metavar": "KEY=VALUE"}
    return option("--set", **properties, help=text)


EXECUTOR = option(
    "--executor",
    default="",
    metavar="dask://HOST:PORT",
    help="run on the workers of a Dask scheduler instead; see docs/parallel.md",
)
JSON = option("--json", action="store_true", help="print one JSON object")
# an action has no default: it would override a --json before the action
ACTION_JSON = option(
    "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object"
)
_WHICH = "run folder, ledger file, or credentials of an operator"
RUN = option(
    "run_folder",
    nargs="?",
    default="",
    metavar="RUN",
    help=f"{_WHICH} (default: the latest in runs/)",
)
RUN_FIRST = option("run_folder", metavar="RUN", help=_WHICH)
FILES = option(
    "run_folder",
    nargs="?",
    default="",
    metavar="RUN",
    help="run folder or ledger file (default: the latest in runs/)",
)


class Command(Protocol):
    """Registers a command, or an action of a command, by a name."""

    def __call__(
        self,
        commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
        name: str,
        above: str = "",
    ) -> None:
        """Register it; it takes its examples from those of the command above."""


def command(
    text: str,
    *options: Option,
    run: Callable[[argparse.Namespace], int] | None = None,
    description: str | None = None,
    doc: str | None = None,
    actions: Mapping[str, Command] | None = None,
    noun: str = "action",
) -> Command:
    """Return a command with a line of help, its options, and its actions.

    What follows the first line of `doc`, the examples, ends the help; without a description, this
    line is the description. An action shows those examples of its command that are its own.
    """
    first, _, rest = inspect.cleandoc(doc or "").partition("\n\n")

    def add(
        commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, above: str = ""
    ) -> None:
        said = first if description is None else description
        shown = said or f"{text[:1].upper()}{text[1:]}."
        parser = commands.add_parser(name, help=text, description=shown)
        parser.epilog = f"{rest}\n" if rest else _examples_of(parser.prog, above)
        for add_option in options:
            add_option(parser)
        parser.set_defaults(parser=parser, **({"run": run} if run else {}))
        if actions:
            titles = {"metavar": noun.upper(), "title": f"{noun}s"}
            below = parser.add_subparsers(**titles, required=run is None)
            for action, add_action in actions.items():
                add_action(below, action, rest)

    return add


def _examples_of(prog: str, text: str) -> str:
    """Return the examples that begin with the words of a command."""
    lines = text.split("\n\n")[0].splitlines()
    own = [line for line in lines if f"{line.strip()} ".startswith(f"{prog} ")]
    return "\n".join(["examples:", *own, ""]) if own else ""


def open_run(arguments: argparse.Namespace) -> "RunFolder | RunningServer":
    """Return the run that a command names first, by its files or by the operator's credentials."""
    return open_server(arguments.run_folder) or open_folder(arguments)


def open_folder(arguments: argparse.Namespace) -> "RunFolder":
    """Return the run in files that a command names; a running server is not enough."""
    from dealfl.runs import RunFolder

    given = arguments.run_folder
    if open_server(given) is not None:
        raise BadInput(
            f"{given} leads to a running server, but {arguments.parser.prog} reads files; use it "
            "on the server's machine, with the run folder"
        )
    return RunFolder.at(given)


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


def say_state(line: str) -> None:
    """Print a line of a process that continues, also if the line cannot be written."""
    with suppress(OSError):  # a full disk
        say(f"dealfl: {line}", file=sys.stderr, flush=True)


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
