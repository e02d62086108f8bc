"""dealfl reproduce: the figures and tables of the paper, beside the results of this system.

examples:
  dealfl reproduce --quick                 all figures with small settings, in two minutes
  dealfl reproduce                         all figures; stopped with Ctrl-C, it continues next time
  dealfl reproduce time energy             two figures
  dealfl reproduce --out results --json    write to another folder, print the claims as JSON
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dealfl.cli.printing import add_json, add_processes, examples_in, format_table, print_result
from dealfl.escaping import for_terminal

__all__ = ["add_parser"]


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
        "--out", default="runs/reproduce", metavar="FOLDER",
        help="folder of page, results and rows (default: runs/reproduce)",
    )  # fmt: skip
    parser.add_argument("--restart", action="store_true", help="discard stored rows first")
    add_processes(
        parser, "number of processes; what measures time runs alone (default: one for each core)"
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from dealfl.memory import keep_freed_memory
    from dealfl.report import choose_line, format_age
    from dealfl.reproduce import Step, as_results, reproduce, write_results

    keep_freed_memory()
    with choose_line(sys.stderr) as line:

        def show(step: Step) -> None:
            line.show(
                lambda: (
                    f"{step.figure}: {step.number} of {step.of} settings, "
                    f"about {format_age(step.left_s)} left"
                )
            )

        found = reproduce(
            Path(arguments.out),
            arguments.figures,
            quick=arguments.quick,
            restart=arguments.restart,
            processes=arguments.processes,
            progress=show,
        )
    page, _ = write_results(found, Path(arguments.out))
    results = as_results(found)
    table = [["verdict", "figure", "claim"]]
    table += [[one["verdict"], one["figure"], one["claim"]] for one in results["claims"]]
    skipped = [f"skipped: {why}" for done in found.figures for why in done.skipped]
    text = "\n".join([format_table(table), *map(for_terminal, skipped), f"\nPage: {page}"])
    return print_result(arguments, results, text)
