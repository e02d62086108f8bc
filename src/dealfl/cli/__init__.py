"""The command `dealfl`: each command parses arguments, calls a package and prints the result.

examples:
  dealfl run                       learn and forget handwritten digits, and check the digest
  dealfl simulate fleet.toml       simulate a fleet of phones with a virtual clock
  dealfl job init houses.csv       write a job file for your own data
  dealfl status                    show the status of the latest run
  dealfl model info runs/digits    describe the model of a run
  dealfl reproduce --quick         compare the paper's claims with results here
  dealfl datasets                  list the datasets and where they are
  dealfl devices show nexus        show the energy per cycle of a phone at each clock frequency
"""

import argparse
import inspect
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dealfl import __version__
from dealfl.cli import (
    audit,
    backup,
    broker,
    datasets,
    demo,
    devices,
    erase,
    job,
    model,
    reproduce,
    run,
    serve,
    simulate,
    status,
    verify,
    workers,
)
from dealfl.cli.printing import format_table, print_result, say
from dealfl.cli.simulate import read_values
from dealfl.errors import BadInput, DealError

__all__ = ["format_table", "main", "parser", "print_result", "read_values", "say"]

_COMMANDS = {  # in the order of the help
    "run": run.COMMAND,
    "simulate": simulate.COMMAND,
    "job": job.COMMAND,
    "status": status.COMMAND,
    "workers": workers.COMMAND,
    "model": model.COMMAND,
    "backup": backup.BACKUP,
    "restore": backup.RESTORE,
    "metrics": status.METRICS,
    "serve": serve.SERVE,
    "work": serve.WORK,
    "broker": broker.COMMAND,
    "demo": demo.COMMAND,
    "erase": erase.ERASE,
    "erasures": erase.ERASURES,
    "readmit": erase.READMIT,
    "show": erase.SHOW,
    "verify": verify.COMMAND,
    "audit": audit.COMMAND,
    "reproduce": reproduce.COMMAND,
    "datasets": datasets.COMMAND,
    "devices": devices.COMMAND,
}
_EXTRAS = {"paho": "network", "cryptography": "network"}  # what a command needs


class _Parser(argparse.ArgumentParser):
    """A parser that does not reformat descriptions and examples."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - options of argparse
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)


def parser(command: str = "") -> argparse.ArgumentParser:
    """Return the parser of one command, or of all if there is none of that name."""
    top: argparse.ArgumentParser = _Parser(
        prog="dealfl",
        description="Federated learning for battery-powered devices whose models forget exactly.",
        epilog=inspect.cleandoc(__doc__).partition("\n\n")[2] + "\n",
    )
    top.add_argument("--version", action="version", version=f"dealfl {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", title="commands", required=True)
    for name in [command] if command in _COMMANDS else _COMMANDS:
        _COMMANDS[name](commands, name)
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run one command."""
    given = sys.argv[1:] if words is None else list(words)
    arguments = parser(given[0] if given else "").parse_args(given)
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()
    except DealError as error:
        say(f"dealfl: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadInput) else 1
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        say(f"dealfl: {error.name} is missing; pip install 'dealfl[{extra}]'", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("dealfl: interrupted; no file is incomplete", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the output is gone
        return 1
    except OSError as error:
        from dealfl.storage import is_disk_failure

        if not is_disk_failure(error):
            raise
        what = error.filename2 or error.filename or "the output"
        _drop_output()
        say(f"dealfl: {what} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return code


def _drop_output() -> None:
    """Discard the rest of the output buffer: flushing it at exit would fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
