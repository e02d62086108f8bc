"""The command `dealfl`: each command parses, calls and prints; everything else is elsewhere."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from dealfl import __version__
from dealfl.cli import (
    backup,
    datasets,
    devices,
    job,
    metrics,
    model,
    run,
    simulate,
    status,
    workers,
)
from dealfl.errors import BadInput, DealError

__all__ = ["main", "parser"]

_COMMANDS = (run, simulate, job, status, workers, model, backup, metrics, datasets, devices)

_EPILOG = """\
examples:
  dealfl run                       learn, forget and prove it, on handwritten digits
  dealfl simulate fleet.toml       a fleet of phones under a virtual clock
  dealfl job init houses.csv       a job for your own data
  dealfl status                    how the latest run is doing
  dealfl model info runs/digits    what a run has learned
  dealfl datasets                  the datasets there are, and where they were found
  dealfl devices show nexus        what a cycle costs on a phone, clock by clock
"""


class _Parser(argparse.ArgumentParser):
    """A parser that prints descriptions and examples as they are written."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - what argparse takes
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = _Parser(
        prog="dealfl",
        description="Federated learning for battery-powered devices whose models forget exactly.",
        epilog=_EPILOG,
    )
    top.add_argument("--version", action="version", version=f"dealfl {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", title="commands", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; return 0, 1 if it failed, 2 if it could not be understood."""
    arguments = parser().parse_args(words)
    try:
        return int(arguments.run(arguments))
    except DealError as error:
        print(f"dealfl: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadInput) else 1
    except KeyboardInterrupt:
        print("dealfl: interrupted; nothing was left half done", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone: nothing more can be said
        return 1
