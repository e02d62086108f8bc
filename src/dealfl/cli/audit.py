"""`dealfl audit`: what could be reconstructed of a person from a run, its models and updates.

examples:
  dealfl audit                           audit the latest run in runs/
  dealfl audit runs/digits --trials 400  with narrower noise
  dealfl audit runs/digits --json        print one JSON object

It takes about half a minute, and does not change the run. THREATS.md explains who sees what.
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from dealfl.cli.printing import (
    FILES,
    JSON,
    command,
    format_table,
    open_folder,
    option,
    print_result,
    say,
)


def _audit(arguments: argparse.Namespace) -> int:
    from dealfl.audit import audit_run, write_audit
    from dealfl.errors import BadInput

    if arguments.trials < 1:
        raise BadInput(f"--trials is {arguments.trials}; give a number ≥ 1")
    run = open_folder(arguments)
    audit = audit_run(run, arguments.trials, arguments.seed, _report)
    shown = ""
    if find_spec("plotly") is not None:
        shown = f"\nPage: {write_audit(audit, arguments.page or run.path / 'audit.html')}"
    header = ("IN THIS RUN", "BEFORE", "AFTER", "EXPECTED", "HOLDS")
    findings = [header, *(finding.cells("-") for finding in audit.findings)]
    points = [("ATTACK", "MIXED", "QUALITY", "FLOOR", "MEASURE")] + [
        (point.attack, str(point.size), f"{point.quality:.3f}", f"{point.floor:.3f}", point.measure)
        for point in audit.points
    ]
    text = "\n\n".join([format_table(findings), format_table(points), *audit.notes]) + shown
    print_result(arguments, audit.as_dict(), text)
    return 0 if audit.holds else 1


def _report(part: str) -> None:
    say(f"dealfl: {part}", file=sys.stderr, flush=True)


COMMAND = command(
    "try what could be reconstructed of a person",
    FILES,
    option("--trials", type=int, default=100, help="trials per point of a curve (default: 100)"),
    option("--seed", type=int, default=0, help="seed of all draws (default: 0)"),
    option(
        "--page",
        type=Path,
        metavar="HTML",
        help="page to write (default: audit.html in the run folder)",
    ),
    JSON,
    run=_audit,
    description="Look for traces of persons in the model and the files of a finished run, before "
    "and after an erasure, and try attacks on models and updates.",
    doc=__doc__,
)
