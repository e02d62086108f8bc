"""The tables of whole systems, made from docs/system.json, which benchmarks/system.py wrote.

python benchmarks/system.py --part lte-phishing-15 --json > lte-phishing-15.json
python -m docs.system_tables lte-phishing-15.json
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

__all__ = ["keep", "system_checks", "system_tables"]

_KEPT = Path(__file__).parent / "system.json"
_NOT_RUN = "*not run*"
_ITS_OWN = "its own"
_MIDDLE = 15.0  # own traffic an hour
_AT_MIDDLE = {"rides", "curves"}  # tables of it alone
Row = dict[str, Any]


def keep(path: Path) -> None:
    """Put the result of a part in the place of what is known of it; the file is named after it."""
    known = json.loads(_KEPT.read_text("utf-8")) if _KEPT.exists() else {}
    result = json.loads(path.read_text("utf-8"))
    settings, *rows = result["rows"]
    known[path.stem] = {"settings": settings, "checks": result["checks"], "rows": rows}
    _KEPT.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", "utf-8")


def system_tables() -> dict[str, str]:
    """Return the tables of docs/energy.md, docs/systems.md and docs/selection.md by name.

    Parts that ran again after a mend are listed on their own.
    """
    known: dict[str, Any] = json.loads(_KEPT.read_text("utf-8"))
    parts = _current(known)
    before = {name: part for name, part in known.items() if name not in parts}
    rows = [row for part in parts.values() for row in part["rows"]]
    found = {(p["settings"]["sha256"], _span(p["settings"]["seeds"])) for p in parts.values()}
    note = "; ".join(
        f"seeds {seeds}: {digest}" for digest, seeds in sorted(found, key=lambda each: each[1])
    )
    middle = [row for row in rows if row.get("own traffic an hour", _MIDDLE) == _MIDDLE]
    tables = {
        name: _table(
            [row for row in (middle if name in _AT_MIDDLE else rows) if key in row], columns
        )
        for name, (key, columns) in _TABLES.items()
    }
    return tables | {
        "notice": _notice(rows),
        "targets": f"{_checks(parts)}\nHashes of the settings: {note}.",
        "superseded": _checks(before),
    }


def system_checks() -> list[Row]:
    """Return the targets of all parts that no later run replaced, with their results."""
    parts = _current(json.loads(_KEPT.read_text("utf-8")))
    return [check for part in parts.values() for check in part["checks"]]


def _current(known: dict[str, Any]) -> dict[str, Any]:
    """Return the parts that no later run replaced."""
    return {name: part for name, part in known.items() if not part["settings"].get("superseded")}


def _checks(parts: dict[str, Any]) -> str:
    """Return targets and results of some parts."""
    lines = [
        [
            check["what"], check["target"], check["measured"],
            "yes" if check["holds"] else "**no**", _span(part["settings"]["seeds"]),
        ]
        for part in parts.values()
        for check in part["checks"]
    ]  # fmt: skip
    return _lines(["what", "target", "modelled", "holds", "seeds"], lines) if lines else _NOT_RUN


_TABLES = {
    "rides": (
        "DEAL against the baseline",
        {
            "task": "task", "radio": "part", "who rides": "DEAL against the baseline",
            "DEAL, % of the baseline": "% of it at equal mean delay", "worst seed": "worst seed %",
            "median, mean, p90 delay h": "median, mean, p90 delay h",
        },
    ),
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
            "hours until it stays right": "hours until it stays there",
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
    "stranger": (
        "% of the fair baseline at equal mean delay",
        {
            "DEAL, % of the baseline": "% of the fair baseline at equal mean delay",
            "worst seed": "worst seed %", "seeds without a result": "seeds without a bracket",
            "mJ an example": "mJ an example",
            "median, mean, p90 delay h": "median, mean, p90 delay h", "learned": "learned",
            "quality": "quality", "exact runs": "exact",
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
            "job": "job", "rows a phone": "rows held", "who rides": "who rides",
            "DEAL, % of `original`": "DEAL, % of original",
            "`incremental`, % of `original`": "incremental, % of original",
            "exact runs": "exact runs",
        },
    ),
    "calls": (
        "call of",
        {
            "job": "call of",
            **{f"{part} %": f"{part} %" for part in ("round trips", "tail", "bytes", "computing")},
            **{
                kind: f"{kind}: % of original"
                for kind in ("as it is", "on a ride", "four round trips", "both")
            },
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


_NOTICED, _LENGTHS, _TAIL, _TRIP = (
    "own traffic noticed after s", "its lengths ×", "tail s", "round trip s",
)  # fmt: skip


def _notice(rows: list[Row]) -> str:
    """Return tables of the share of the baseline, one for what is varied together."""
    varied = [row for row in rows if _NOTICED in row]
    if not varied:
        return _NOT_RUN
    plain = [row for row in varied if row[_TAIL] == row[_TRIP] == _ITS_OWN]
    tables = [
        _cross(plain, "noticed after", _NOTICED, "radio, lengths of own traffic", _LENGTHS),
        _cross([row for row in varied if row[_TAIL] != _ITS_OWN], "tail", _TAIL, "radio"),
        _cross([row for row in varied if row[_TRIP] != _ITS_OWN], "round trip", _TRIP, "radio"),
    ]
    return "\n".join(tables)


def _cross(rows: list[Row], what: str, across: str, head: str, down: str = "") -> str:
    """Return a table of % of the baseline, with the values of one key across."""
    values = list(dict.fromkeys(row[across] for row in rows))
    lines: dict[str, dict[float, str]] = {}
    for row in rows:
        name = f"{row['radio']}, × {row[down]:g}" if down else row["radio"]
        lines.setdefault(name, {})[row[across]] = str(row["% of the fair baseline"])
    return _lines(
        [head, *(f"{what} {value:g} s" for value in values)],
        [[name, *(found.get(value, "–") for value in values)] for name, found in lines.items()],
    )


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
