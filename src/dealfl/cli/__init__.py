"""The command `dealfl`: each command parses, calls and prints; everything else is elsewhere."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dealfl import __version__
from dealfl.atomic_files import is_disk_failure
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
        code = int(arguments.run(arguments))
        sys.stdout.flush()
    except DealError as error:
        print(f"dealfl: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadInput) else 1
    except KeyboardInterrupt:
        print("dealfl: interrupted; nothing was left half done", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the output is gone: nothing more can be said
        return 1
    except OSError as error:
        if not is_disk_failure(error):
            raise
        what = error.filename2 or error.filename or "the output"
        _drop_output()
        print(f"dealfl: {what} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return code


def _drop_output() -> None:
    """Write what is left in the buffer to nowhere: flushing it at the exit would fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
