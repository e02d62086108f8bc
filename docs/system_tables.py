"""The tables of whole systems, made from docs/system.json, which benchmarks/system.py wrote.

python benchmarks/system.py --part lte-phishing --json > lte-phishing.json
python -m docs.system_tables lte-phishing.json
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

__all__ = ["keep", "system_tables"]

_KEPT = Path(__file__).parent / "system.json"
_NOT_RUN = "*not run*"
_MIDDLE = 15.0  # own traffic an hour, of the curves that are shown
Row = dict[str, Any]


def keep(path: Path) -> None:
    """Put the result of a part in the place of what is known of it; the file is named after it."""
    known = json.loads(_KEPT.read_text("utf-8")) if _KEPT.exists() else {}
    result = json.loads(path.read_text("utf-8"))
    settings, *rows = result["rows"]
    known[path.stem] = {"settings": settings, "checks": result["checks"], "rows": rows}
    _KEPT.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", "utf-8")


def system_tables() -> dict[str, str]:
    """Return the tables of docs/energy.md and docs/selection.md by name."""
    parts: dict[str, Any] = json.loads(_KEPT.read_text("utf-8"))
    rows = [row for part in parts.values() for row in part["rows"]]
    checks = [
        [
            check["what"], check["target"], check["measured"],
            "yes" if check["holds"] else "**no**", _span(part["settings"]["seeds"]),
        ]
        for part in parts.values()
        for check in part["checks"]
    ]  # fmt: skip
    found = {(p["settings"]["sha256"], _span(p["settings"]["seeds"])) for p in parts.values()}
    note = "; ".join(
        f"seeds {seeds}: {digest}" for digest, seeds in sorted(found, key=lambda each: each[1])
    )
    tables = {name: _table(_found(rows, key), columns) for name, (key, columns) in _TABLES.items()}
    targets = _lines(["what", "target", "modelled", "holds", "seeds"], checks)
    return tables | {
        "notice": _notice(rows),
        "targets": f"{targets}\nHashes of the settings: {note}.",
    }


_TABLES = {
    "riding": (
        "DEAL against the baseline",
        {
            "task": "task", "radio": "part", "own traffic an hour": "own traffic an hour",
            "who rides": "DEAL against the baseline",
            "DEAL, % of the baseline": "% of it at equal mean delay", "worst seed": "worst seed %",
            "seeds without a result": "seeds without a bracket",
            "mJ an example": "mJ an example",
            "median, mean, p90 delay h": "median, mean, p90 delay h",
            "exact runs": "exact",
        },
    ),
    "curves": (
        "curve of the baseline over",
        {
            "task": "task", "radio": "curve of the baseline over",
            "own traffic an hour": "own traffic an hour", "examples": "it waits for",
            "mJ an example": "baseline: mJ an example", "mean delay h": "its mean delay h",
            "learned": "it learned",
        },
    ),
    "changes": (
        "change of",
        {
            "change of": "change of", "task": "task", "system": "system",
            "hours until right again": "hours until within 3 points of a fleet that begins at the "
            "change",
            "seeds that recover": "seeds that recover",
        },
    ),
    "reviews": (
        "held back %",
        {
            name: name
            for name in (
                "held back %", "accuracy", "examples learned", "learned back", "J of computing",
                "J of reviews",
            )
        },
    ),
    "forecasts": (
        "forecasts off by %",
        {
            name: name
            for name in (
                "forecasts off by %", "time of", "wrong picks %", "mean", "median",
                "95th percentile",
            )
        },
    ),
    "compute": (
        "rows held",
        {
            "job": "job", "rows a phone": "rows held",
            "DEAL, % of `original`": "DEAL, % of original",
            "`incremental`, % of `original`": "incremental, % of original",
            "exact runs": "exact runs",
        },
    ),
    "rows": (
        "rows, honor",
        {
            "job": "job", "radio": "radio",
            **{name: f"rows, {name}" for name in ("honor", "lenovo", "zte", "mi", "nexus")},
            **{
                f"with {held:,}": f"DEAL, incremental: % of original with {held:,} rows"
                for held in (1_000, 10_000, 100_000)
            },
        },
    ),
}  # fmt: skip


def _found(rows: list[Row], key: str) -> list[Row]:
    middle = [row for row in rows if row.get("own traffic an hour", _MIDDLE) == _MIDDLE]
    return [row for row in (middle if key.startswith("curve") else rows) if key in row]


def _notice(rows: list[Row]) -> str:
    """Return the share of the baseline by what is varied."""
    columns = {
        "radio": "radio", "noticed after s": "own traffic noticed after s",
        "lengths ×": "its lengths ×", "tail s": "tail s", "round trip s": "round trip s",
        "DEAL, % of the baseline": "% of the fair baseline",
    }  # fmt: skip
    return _table(_found(rows, "own traffic noticed after s"), columns)


def _span(seeds: str) -> str:
    """Return the first and the last of some seeds."""
    listed = json.loads(seeds)
    return f"{listed[0]}–{listed[-1]}"


def _table(rows: list[Row], columns: dict[str, str]) -> str:
    if not rows:
        return _NOT_RUN
    return _lines(
        list(columns), [[_shown(row.get(key, "–")) for key in columns.values()] for row in rows]
    )


def _lines(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(one.replace('|', '∣') for one in line)} |\n" for line in lines)


def _shown(value: object) -> str:
    if isinstance(value, float) and math.isnan(value):
        return "–"
    if isinstance(value, float):
        return f"{value:.2f}" if value < 10 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
