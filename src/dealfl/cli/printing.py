"""Output shared by several commands: tables and problems."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["add_json", "print_problems", "print_table"]

_SHOWN = 20


def add_json(parser: argparse.ArgumentParser, default: Any = False) -> None:  # noqa: ANN401
    """Add --json to a command.

    An action suppresses the default, which would override a --json before the action.
    """
    text = "print one JSON object"
    parser.add_argument("--json", action="store_true", default=default, help=text)


def print_table(table: Sequence[Sequence[str]]) -> None:
    """Print rows with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def print_problems(problems: Sequence[object]) -> None:
    """Print the first problems and the number of others to standard error."""
    for problem in problems[:_SHOWN]:
        print(f"dealfl: {problem}", file=sys.stderr)
    if len(problems) > _SHOWN:
        print(f"dealfl: and {len(problems) - _SHOWN:,} more", file=sys.stderr)
