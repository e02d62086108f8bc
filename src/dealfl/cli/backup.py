"""`dealfl backup` and `dealfl restore`: copies of a run's ledger and journals, and the way back."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

from dealfl.cli.printing import add_json

if TYPE_CHECKING:
    from dealfl.runs import Copied

__all__ = ["add_parser"]

_BACKUP = """\
examples:
  dealfl backup runs/digits --to copies/monday     the ledger and all journals of a run
  dealfl backup journal.db --to copies/phone       one of them

A server or a worker may go on writing meanwhile.
"""
_RESTORE = """\
examples:
  dealfl restore copies/monday --to runs/digits --force    in place of what is there
  dealfl restore copies/monday --to runs/again             beside it

After an old ledger was restored, a worker that is ahead of it begins a new incarnation and sends
again all it holds: nothing is counted twice, and nothing that a worker still has is lost.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the commands `backup` and `restore`."""
    backup = subparsers.add_parser(
        "backup",
        help="copy a run's ledger and journals",
        description="Copy ledgers and journals, with checksums, while others write.",
        epilog=_BACKUP,
    )
    backup.add_argument("source", metavar="RUN", help="a run folder, a ledger or a journal")
    backup.add_argument("--to", required=True, metavar="FOLDER", help="a new folder")
    backup.set_defaults(run=_back_up)
    restore = subparsers.add_parser(
        "restore",
        help="put a backup back",
        description="Put a backup back, after checking that it is sound and not too new.",
        epilog=_RESTORE,
    )
    restore.add_argument("backup", metavar="BACKUP", help="what dealfl backup made")
    restore.add_argument("--to", required=True, metavar="RUN", help="a run folder, or a file")
    restore.add_argument("--force", action="store_true", help="replace what is there")
    restore.set_defaults(run=_restore)
    for parser in (backup, restore):
        add_json(parser)


def _back_up(arguments: argparse.Namespace) -> int:
    from dealfl.runs import back_up

    copies = back_up(Path(arguments.source), Path(arguments.to))
    return _print_copies(arguments, "backed up", copies)


def _restore(arguments: argparse.Namespace) -> int:
    from dealfl.runs import restore

    copies = restore(Path(arguments.backup), Path(arguments.to), force=arguments.force)
    return _print_copies(arguments, "restored", copies)


def _print_copies(arguments: argparse.Namespace, done: str, copies: "list[Copied]") -> int:
    if arguments.json:
        plain = [dataclasses.asdict(copy) for copy in copies]
        print(json.dumps({"done": done, "to": arguments.to, "files": plain}))
        return 0
    for copy in copies:
        print(f"{done}: {copy.kind} {copy.file}, version {copy.version}, {copy.size_bytes:,} bytes")
    return 0
