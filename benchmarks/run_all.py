"""Run benchmarks, each in a process of its own; docs/benchmarks.json holds what they measured.

python benchmarks/run_all.py                    all of them
python benchmarks/run_all.py energy memory      only these; what the others measured stays
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from growth import draw as draw_growth

NAMES = (
    "exactness",
    "learners",
    "neighbors",
    "estimators",
    "quality",
    "federation",
    "runs",
    "energy",
    "phone",
    "memory",
    "selection",
    "faults",
    "erasure",
    "mqtt",
    "riding",
    "pocket",
    "scale",
    "desk",
    "fleets",
    "tree",
    "private",
)
HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "benchmarks.json"
GROWTH = HERE.parent / "docs" / "images" / "forget_growth.svg"


def measure(name: str) -> dict[str, Any]:
    """Run one benchmark; return its machine, checks and rows."""
    command = [sys.executable, str(HERE / f"{name}.py"), "--json"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    result: dict[str, Any] = json.loads(done.stdout)
    if name == "learners":
        GROWTH.write_text(draw_growth(result["rows"]))
    return result


def write(results: dict[str, Any]) -> None:
    """Write the results, one line for each check and row."""
    parts = []
    for name in NAMES:
        if name in results:
            lists = [
                f'"{key}": [\n' + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
                + "\n]"
                for key, rows in results[name].items() if isinstance(rows, list)
            ]  # fmt: skip
            machine = json.dumps(results[name]["machine"])
            parts.append(f'"{name}": {{"machine": {machine},\n' + ",\n".join(lists) + "}")
    RESULTS.write_text("{" + ",\n".join(parts) + "}\n", "utf-8")


def run_all(names: list[str]) -> int:
    """Return the number of checks that do not hold."""
    failed = 0
    for name in names:
        results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
        results[name] = measure(name)
        failed += sum(not check["holds"] for check in results[name]["checks"])
        write(results)
    print(f"wrote {RESULTS.name}; {failed} checks do not hold; `make docs` writes the page")
    return failed


if __name__ == "__main__":
    sys.exit(1 if run_all(sys.argv[1:] or list(NAMES)) else 0)
