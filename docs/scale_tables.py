"""The tables of docs/scale.md and docs/regions.md, made from what `benchmarks/scale.py`,
`benchmarks/fleets.py` and `benchmarks/tree.py` measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["scale_tables", "tree_tables"]

_RESULTS = Path(__file__).parent / "benchmarks.json"
_DAY_S = 86_400
_NOT_RUN = "*not measured yet: `python benchmarks/run_all.py scale`*"
_FLEET_MB = "at the end, MB"
Row = dict[str, Any]


def scale_tables() -> dict[str, str]:
    """Return the tables by name."""
    results = json.loads(_RESULTS.read_text("utf-8"))
    found = results.get("scale", {"checks": [], "rows": []})
    fleet = _largest_fleet(results)
    units = next((row for row in found["rows"] if "unit costs" in row), None)
    star = next((row for row in found["rows"] if row.get("brokers") == "three mosquittos"), None)
    brokers = [row for row in found["rows"] if "brokers" in row]
    flower = [row for row in found["rows"] if "Flower" in row]
    checks = [
        [one["what"], one["target"], one["measured"], "yes" if one["holds"] else "**no**"]
        for one in found["checks"]
    ]
    return {
        "units": _units(units, star, fleet) if units and star else _NOT_RUN,
        "limits": _limits(units, star, fleet) if units and star else _NOT_RUN,
        "brokers": _transposed("brokers", brokers) if brokers else _NOT_RUN,
        "flower": _transposed("Flower", flower) if flower else _NOT_RUN,
        "targets": _table(["what", "target", "measured", "holds"], checks) if checks else _NOT_RUN,
    }


def tree_tables() -> dict[str, str]:
    """Return the table of docs/regions.md: what a second level adds, and the longest pause."""
    rows = json.loads(_RESULTS.read_text("utf-8")).get("tree", {"rows": []})["rows"]
    key = "assignment to version, 1,000 workers"
    delays = [
        [row[key], *(f"{row[name]:.2f} s" for name in ("median s", "p95 s"))]
        for row in rows
        if key in row
    ]
    pauses = [row for row in rows if "pause of a compaction s" in row]
    if not delays or not pauses:
        return {"tree": "*not measured yet: `python benchmarks/run_all.py tree`*"}
    (pause,) = pauses
    told = (
        f"Compaction of a region with {pause['workers of a region']:,} workers, "
        f"{pause['ledger MB']:.0f} MB: {pause['pause of a compaction s']:.1f} s."
    )
    head = ["from an assignment to the version with the update, 1,000 workers", "median", "p95"]
    return {"tree": f"{_table(head, delays)}\n\n{told}"}


def _largest_fleet(results: Row) -> Row | None:
    """Return the largest fleet that was simulated, most of whose workers hibernate."""
    rows = results.get("fleets", {"rows": []})["rows"]
    fleets = [row for row in rows if _FLEET_MB in row]
    return max(fleets, key=lambda row: int(row["workers"]), default=None)


def _units(units: Row, star: Row, fleet: Row | None) -> str:
    many = f"with {star['workers'] // 3:,} connections"
    rows = [
        ["CPU of the server alone", _of(units, "engine CPU ms an update", 2), "an update"],
        ["CPU of the server, TLS to three brokers", _of(star, "server CPU ms an update", 2),
         "an update"],
        ["traffic of a device, both ways", _of(star, "kB an update", 1), "an update"],
        ["TLS connections, announced to the server", _of(star, "joined a second"), "a second"],
        ["ledger", _of(units, "ledger kB a worker", 1), "a worker"],
        ["compaction, in which the server waits", _of(units, "compaction s a GB", 1),
         "a GB of ledger"],
        ["memory of a mosquitto", _of(star, "broker MB"), many],
        ["memory of a simulation, workers awake", _of(units, "simulated kB a worker"), "a worker"],
        *([_simulated(fleet)] if fleet else []),
    ]  # fmt: skip
    return _table(["what", "measured", "for"], rows)


def _simulated(fleet: Row) -> list[str]:
    memory = "memory of a simulation, most workers hibernate"
    return [memory, f"{fleet[_FLEET_MB]:,.0f} MB", f"{fleet['workers']:,} workers"]


def _of(row: Row, name: str, digits: int = 0) -> str:
    """Return a figure with the unit in its name."""
    unit = next((unit for unit in ("ms", "kB", "MB", "s") if f" {unit} " in f" {name} "), "")
    return f"{row[name]:,.{digits}f} {unit if unit != 's' or 'GB' in name else ''}".rstrip()


def _limits(units: Row, star: Row, fleet: Row | None) -> str:
    """Return where each part ends, computed from its unit cost."""
    updates = 1e3 / star["server CPU ms an update"]
    ledger_gb = units["ledger kB a worker"]  # of a million workers
    compaction_s = ledger_gb * units["compaction s a GB"]
    return_s = 1e5 / star["joined a second"]
    daily = updates * _DAY_S / 1e6
    rows = [
        ["CPU of the server", f"{updates:,.0f} updates a second, {daily:,.0f} M a day",
         "a faster core; one server for each job"],
        ["ledger of 10⁶ workers", f"{ledger_gb:,.0f} GB", "one server for each region"],
        ["its compaction after erasures", f"{compaction_s:,.0f} s without rounds",
         "erase in batches, at night"],
        ["10⁵ devices that are always connected", f"{return_s:,.0f} s to return after a restart",
         "`sleep = true`; more brokers"],
        ["10⁶ devices that call once a day", f"{1e6 / _DAY_S:.0f} connections a second",
         "nothing" if star["joined a second"] > 1e6 / _DAY_S else "more brokers"],
        *([_large_simulation(fleet)] if fleet else []),
    ]  # fmt: skip
    return _table(["part", "extrapolated", "what to add then"], rows)


def _large_simulation(fleet: Row) -> list[str]:
    million_gb = fleet[_FLEET_MB] / fleet["workers"] * 1e3
    return ["a simulation of 10⁶ workers", f"{million_gb:,.0f} GB of memory",
            "several smaller ones, on an executor"]  # fmt: skip


def _transposed(key: str, rows: list[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row if name != key))
    head = ["", *(row[key] for row in rows)]
    return _table(head, [[name, *(_shown(row.get(name)) for row in rows)] for name in names])


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
