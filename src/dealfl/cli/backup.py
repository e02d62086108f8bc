"""`dealfl backup` and `dealfl restore`: copy and restore ledgers and journals."""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from dealfl.cli.printing import JSON, command, option, print_result

if TYPE_CHECKING:
    from dealfl.runs import Copied


def _back_up(arguments: argparse.Namespace) -> int:
    from dealfl.runs import back_up

    copies = back_up(Path(arguments.source), Path(arguments.to))
    return _print_copies(arguments, "backed up", copies)


def _restore(arguments: argparse.Namespace) -> int:
    from dealfl.runs import restore

    copies = restore(Path(arguments.backup), Path(arguments.to), force=arguments.force)
    return _print_copies(arguments, "restored", copies)


def _print_copies(arguments: argparse.Namespace, done: str, copies: "list[Copied]") -> int:
    plain = [dataclasses.asdict(copy) for copy in copies]
    lines = [
        f"{done}: {copy.kind} {copy.file}, version {copy.version}, {copy.size_bytes:,} bytes"
        for copy in copies
        if "/" not in copy.file
    ]
    journals = [copy.size_bytes for copy in copies if "/" in copy.file]
    if journals:
        lines.append(f"{done}: {len(journals):,} workers' journals, {sum(journals):,} bytes")
    return print_result(
        arguments, {"done": done, "to": arguments.to, "files": plain}, "\n".join(lines)
    )


BACKUP = command(
    "copy the ledger and journals of a run",
    option("source", metavar="RUN", help="run folder, ledger or journal"),
    option("--to", required=True, metavar="FOLDER", help="new folder"),
    JSON,
    run=_back_up,
    doc="""Copy ledgers and journals with checksums, while they are in use.

    examples:
      dealfl backup runs/digits --to copies/monday     the ledger and all journals of a run
      dealfl backup journal.db --to copies/phone       one journal

    Servers and workers can keep running during a backup.
    """,
)
RESTORE = command(
    "restore a backup",
    option("backup", metavar="BACKUP", help="folder written by dealfl backup"),
    option("--to", required=True, metavar="FOLDER", help="run folder, or a file"),
    option("--force", action="store_true", help="replace existing files"),
    JSON,
    run=_restore,
    doc="""Restore a backup after checking its checksums and schema versions.

    examples:
      dealfl restore copies/monday --to runs/digits --force    replace the files of a run
      dealfl restore copies/monday --to runs/again             restore to another folder
      dealfl restore runs/digits/ledger.db --to runs/digits --force    repair a ledger in its place

    The model of a ledger is computed again from the sums of its workers.
    A worker that is ahead of a restored ledger starts a new incarnation and sends all examples that it
    holds again. No example is counted twice, and no example that a worker holds is lost.
    """,  # noqa: E501 - as wide as the help
)
