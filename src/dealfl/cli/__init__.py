"""The command `dealfl`: each command parses arguments, calls a package and prints the result.

examples:
  dealfl run                       learn and forget handwritten digits, and check the digest
  dealfl job init houses.csv       write a job file for your own data
  dealfl status                    show the status of the latest run
  dealfl erase runs/houses ann     erase a person from a run
"""

import argparse
import errno
import inspect
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from dealfl import __version__
from dealfl.cli.parsing import Parser
from dealfl.cli.printing import Command, format_table, print_result, say
from dealfl.cli.simulate import read_values
from dealfl.errors import BadInput, DealError, options_named

__all__ = ["format_table", "main", "parser", "print_result", "read_values", "say"]

_GROUPS: dict[str, dict[str, str]] = {  # module and name of each; in the order of the help
    "try": {"run": "run.COMMAND", "demo": "demo.COMMAND"},
    "own data": {"job": "job.COMMAND", "model": "model.COMMAND", "report": "report.COMMAND"},
    "persons": {
        "erase": "erase.ERASE",
        "show": "erase.SHOW",
        "readmit": "erase.READMIT",
        "verify": "verify.COMMAND",
        "erasures": "erase.ERASURES",
        "audit": "audit.COMMAND",
    },
    "operate": {
        "status": "status.COMMAND",
        "desk": "desk.COMMAND",
        "workers": "workers.COMMAND",
        "serve": "serve.SERVE",
        "work": "serve.WORK",
        "broker": "broker.COMMAND",
        "keyholder": "keyholder.COMMAND",
        "backup": "backup.BACKUP",
        "restore": "backup.RESTORE",
        "metrics": "status.METRICS",
        "completion": "completion.COMMAND",
    },
    "research": {
        "simulate": "simulate.COMMAND",
        "reproduce": "reproduce.COMMAND",
        "datasets": "datasets.COMMAND",
        "devices": "devices.COMMAND",
    },
}
_COMMANDS = {name: home for group in _GROUPS.values() for name, home in group.items()}
_WRONG_NAMES = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EACCES, errno.EPERM)
_EXTRAS = {  # what a command needs
    "paho": "network",
    "cryptography": "network",
    "scipy": "scipy",
    "starlette": "desk",
    "uvicorn": "desk",
}


def parser(command: str = "") -> argparse.ArgumentParser:
    """Return the parser of one command, or of all if there is none of that name."""
    top: argparse.ArgumentParser = Parser(
        prog="dealfl",
        usage="dealfl COMMAND …",
        description="Federated learning for battery-powered devices whose models forget exactly.",
        epilog=inspect.cleandoc(__doc__).partition("\n\n")[2]
        + "\n\n`dealfl COMMAND --help` shows what a command takes, with examples.\n",
    )
    top.add_argument("--version", action="version", version=f"dealfl {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", help=argparse.SUPPRESS, required=True)
    commands._prog_prefix = "dealfl"
    for name in [command] if command in _COMMANDS else _COMMANDS:
        _load(_COMMANDS[name])(commands, name)
    lines = {line.dest: line for line in commands._choices_actions}
    for title, names in _GROUPS.items():
        group = top.add_argument_group(title)
        group._group_actions += [lines[name] for name in names if name in lines]
    top._action_groups.append(top._action_groups.pop(1))  # options
    return top


def _load(home: str) -> Command:
    """Return a command; those that are not used are not loaded."""
    module, name = home.split(".")
    command: Command = getattr(import_module(f"dealfl.cli.{module}"), name)
    return command


def main(words: Sequence[str] | None = None) -> int:
    """Run one command."""
    given = _read_help(sys.argv[1:] if words is None else list(words))
    arguments = parser(given[0]).parse_args(given)
    try:
        with options_named():
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
        return _explain(error)
    return code


def _explain(error: OSError) -> int:
    """Say what cannot be used or written, and return the exit code; raise any other error."""
    from dealfl.storage import is_disk_failure

    if error.errno in _WRONG_NAMES and error.filename:
        say(f"dealfl: {error.filename} cannot be used: {error.strerror}", file=sys.stderr)
        return 2
    if not is_disk_failure(error):
        raise error
    what = error.filename2 or error.filename or "the output"
    _drop_output()
    say(f"dealfl: {what} cannot be written: {error.strerror}", file=sys.stderr)
    return 1


def _read_help(words: list[str]) -> list[str]:
    """Return the words of a command: nothing, or the word help, asks for help."""
    if not words or words[0] == "help":
        return [*words[1:], "--help"]
    return words


def _drop_output() -> None:
    """Discard the rest of the output buffer: flushing it at exit would fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
