"""The tables of docs/speed.md, made from docs/benchmarks.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

__all__ = ["speed_tables"]

_RESULTS = Path(__file__).parent / "benchmarks.json"
_NOT_RUN = "*not measured yet: `python benchmarks/run_all.py {}`*"
_LEARNERS = ("learners", "neighbors")  # benchmarks
_DISCUSSED = "|".join((  # beginnings of the checks of which the page says what was tried
    "naive Bayes, covtype: forget 1,000,",
    "movielens, packed: forget one, mean,",
    "ridge, 90 features: forget 1,000 of 30 bits,",
    "138,493 × 26,744, packed: forget one, mean, beside implicit",
    "138,493 × 26,744, full: similar 20,",
))  # fmt: skip
_JESTER = "jester, packed: forget one, mean"
Row = dict[str, Any]


def speed_tables() -> dict[str, str]:
    """Return the tables by name."""
    results: Row = json.loads(_RESULTS.read_text("utf-8"))
    checks = [check for name in _LEARNERS for check in _part(results, name, "checks")]
    return {
        "learners": _table([check for check in checks if _is_listed(check)], "learners"),
        "runs": _table(_part(results, "runs", "checks"), "runs"),
        "jester": _jester(_part(results, "learners", "rows")),
    }


def _part(results: Row, name: str, part: str) -> list[Row]:
    found: list[Row] = results.get(name, {}).get(part, [])
    return found


def _is_listed(check: Row) -> bool:
    return not check["holds"] or re.match(_DISCUSSED, check["what"]) is not None


def _jester(rows: list[Row]) -> str:
    """Return the time to forget one person of Jester."""
    times_ms = [row["numba ms"] for row in rows if row.get("what") == _JESTER]
    if not times_ms:
        return _NOT_RUN.format("learners")
    return f"On Jester, dealfl forgets one person in {times_ms[0]:.3f} ms on average."


def _table(checks: list[Row], benchmark: str) -> str:
    if not checks:
        return _NOT_RUN.format(benchmark)
    rows = [
        [one["what"], one["target"], one["measured"], "yes" if one["holds"] else "**no**"]
        for one in checks
    ]
    lines = [["what", "target", "measured", "holds"], ["---"] * 4, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
