"""What every benchmark prints: a table for people, or one JSON object with its checks."""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from dealfl.errors import DealError

Row = dict[str, Any]


@dataclass(frozen=True)
class Check:
    """One claim: the target, what was measured, and whether it holds."""

    what: str
    target: str
    measured: str
    holds: bool


@dataclass
class Report:
    """The outcome of one benchmark."""

    benchmark: str
    checks: list[Check] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def check(self, what: str, target: str, measured: str, holds: bool) -> None:
        """Add one claim."""
        self.checks.append(Check(what, target, measured, bool(holds)))

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "benchmark": self.benchmark,
            "machine": machine(),
            "checks": [asdict(check) for check in self.checks],
            "rows": self.rows,
        }

    def markdown(self) -> str:
        """Return the checks and rows as tables."""
        parts = [_table(["what", "target", "measured", "holds"], [
            [c.what, c.target, c.measured, "yes" if c.holds else "**no**"] for c in self.checks
        ])]  # fmt: skip
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in self.rows:
            groups.setdefault(tuple(row), []).append(row)
        for columns, rows in groups.items():
            parts.append(_table(list(columns), [[_shown(row[c]) for c in columns] for row in rows]))
        return "\n".join(parts)


def machine() -> dict[str, Any]:
    """Return what ran the benchmark."""
    import numpy
    import scipy
    import sklearn  # type: ignore[import-untyped]

    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:  # noqa: PTH123
            return next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        return platform.machine()


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Say on the terminal what is being done, and how long it took."""
    start = time.perf_counter()
    print(f"{what} …", end="", file=sys.stderr, flush=True)
    yield
    print(f" {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


def main(benchmark: Callable[..., Report], description: str, parts: Sequence[str] = ()) -> None:
    """Run one benchmark from the command line; `parts` can be run on their own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a minute at the most")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    if parts:
        parser.add_argument("--part", action="append", choices=parts, help="only this part")
    arguments = parser.parse_args()
    try:
        given = (arguments.part or parts,) if parts else ()
        report = benchmark(arguments.quick, *given)
    except DealError as error:
        sys.exit(f"{parser.prog}: {error}")
    print(json.dumps(report.as_dict(), indent=2) if arguments.json else report.markdown())
    sys.exit(0 if all(check.holds for check in report.checks) else 1)
