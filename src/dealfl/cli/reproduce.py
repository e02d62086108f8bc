"""dealfl reproduce: the figures and tables of the paper, beside the results of this system.

examples:
  dealfl reproduce --quick                 all figures with small settings, in two minutes
  dealfl reproduce                         all figures; stopped with Ctrl-C, it continues next time
  dealfl reproduce time energy             two figures
  dealfl reproduce --out results --json    write to another folder, print the claims as JSON
"""

from __future__ import annotations

import argparse

from dealfl.cli.printing import add_json, add_processes, examples_in
from dealfl.errors import DealError

_GROUP = "dealfl.commands"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command `reproduce`."""
    parser = subparsers.add_parser(
        "reproduce",
        help="reproduce the figures and tables of the paper",
        description=(
            "Run the evaluation of the paper and compare each claim with the results here: "
            "reproduced, not reproduced or not comparable. Writes index.html, results.json and "
            "the rows of every figure. Rows that are stored are not computed again. Figures: "
            "see docs/results.md. Figures that need missing data are skipped; "
            "`dealfl datasets` shows how to get the data."
        ),
        epilog=examples_in(__doc__),
    )
    parser.add_argument(
        "figures", nargs="*", metavar="FIGURE", help="name of a figure (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="run fewer and smaller settings")
    parser.add_argument(
        "--out",
        default="runs/reproduce",
        metavar="FOLDER",
        help="folder of page, results and rows (default: runs/reproduce)",
    )
    parser.add_argument("--restart", action="store_true", help="discard stored rows first")
    add_processes(
        parser, "number of processes; what measures time runs alone (default: one for each core)"
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    return run_entry_point("reproduce", arguments)


def run_entry_point(command: str, arguments: argparse.Namespace) -> int:
    """Run a command of the paper's package, which is looked up only now; return the exit code."""
    from dealfl.registry import load_plugin, plugins

    if command not in plugins(_GROUP):
        raise DealError(
            f"no installed package has the entry point {command!r} in {_GROUP}: dealfl was not "
            "installed with its package dealfl_paper; run `pip install dealfl` (in a copy of the "
            "source: `pip install -e .`)"
        )
    return int(load_plugin(_GROUP, command)(arguments))
