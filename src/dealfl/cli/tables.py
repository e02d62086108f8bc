"""What several commands print: tables, durations, figures, problems."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["add_json", "ago", "print_problems", "print_table", "short_number"]

_SHOWN = 20


def add_json(parser: argparse.ArgumentParser, default: Any = False) -> None:  # noqa: ANN401
    """Give a command its --json."""
    text = "print one JSON object"
    parser.add_argument("--json", action="store_true", default=default, help=text)


def print_table(table: Sequence[Sequence[str]]) -> None:
    """Print rows with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def ago(seconds: float) -> str:
    """Return a duration as a person says it.

    >>> ago(7.0), ago(200.0), ago(8000.0), ago(200_000.0)
    ('7 s', '3 min', '2 h', '2 days')
    """
    for size, unit in ((86_400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def short_number(figure: float | None) -> str:
    """Return a figure with three digits that count.

    >>> short_number(None), short_number(0.24817), short_number(1234.5)
    ('-', '0.248', '1,234')
    """
    if figure is None:
        return "-"
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def print_problems(problems: Sequence[object]) -> None:
    """Tell the first problems to the error output, and how many more there are."""
    for problem in problems[:_SHOWN]:
        print(f"dealfl: {problem}", file=sys.stderr)
    if len(problems) > _SHOWN:
        print(f"dealfl: and {len(problems) - _SHOWN:,} more", file=sys.stderr)
