"""dealfl reproduce: the figures and tables of the paper, beside the results of this system.

examples:
  dealfl reproduce --quick                 all figures with small settings, in two minutes
  dealfl reproduce                         all figures; stopped with Ctrl-C, it continues next time
  dealfl reproduce time energy             two figures
  dealfl reproduce --out results --json    write to another folder, print the claims as JSON
"""

from __future__ import annotations

import argparse
from functools import partial

from dealfl.cli.printing import EXECUTOR, JSON, command, option, processes
from dealfl.errors import DealError

_GROUP = "dealfl.commands"


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


COMMAND = command(
    "reproduce the figures and tables of the paper",
    option("figures", nargs="*", metavar="FIGURE", help="name of a figure (default: all)"),
    option("--quick", action="store_true", help="run fewer and smaller settings"),
    option(
        "--out",
        default="runs/reproduce",
        metavar="FOLDER",
        help="folder of page, results and rows (default: runs/reproduce)",
    ),
    option("--restart", action="store_true", help="discard stored rows first"),
    option(
        "--skip-missing", action="store_true", help="run without the datasets that are not here"
    ),
    processes("number of processes; what measures time runs alone (default: one for each core)"),
    EXECUTOR,
    JSON,
    run=partial(run_entry_point, "reproduce"),
    description="Run the evaluation of the paper and compare each claim with the results here: "
    "reproduced, not reproduced or not comparable. Writes index.html, results.json and "
    "the rows of every figure. Rows that are stored are not computed again. Figures: "
    "see docs/results.md. The datasets are fetched once, by `dealfl datasets fetch --paper`; "
    "without them the command stops at its start, or skips what needs them (--skip-missing). All "
    "figures take about half an hour on two cores.",
    doc=__doc__,
)
