"""`dealfl report`: write the HTML report of a finished run again.

examples:
  dealfl report                              of the latest run in runs/
  dealfl report runs/digits                  of the run in a folder
  dealfl report runs/digits --out page.html  write another file
"""

import argparse
from pathlib import Path

from dealfl.cli.printing import FILES, JSON, command, open_folder, option, print_result


def _report(arguments: argparse.Namespace) -> int:
    from dealfl.report import write_page

    run = open_folder(arguments)
    record = run.record()
    page = arguments.out or run.path / "report.html"
    write_page(record, page)
    plain = {"report": str(page), "job": record.job, "exact": record.exact}
    return print_result(arguments, plain, f"Report: {page}")


COMMAND = command(
    "write the HTML report of a finished run again",
    FILES,
    option(
        "--out", type=Path, metavar="HTML", help="page to write (default: report.html in the run)"
    ),
    JSON,
    run=_report,
    description="Write the HTML report of a finished run again, from the record in its folder.",
    doc=__doc__,
)
