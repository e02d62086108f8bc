"""Run every benchmark in a process of its own and write docs/benchmarks.md."""

import json
import subprocess
import sys
from pathlib import Path

from reporting import Check, Report

NAMES = ("exactness", "quality", "energy", "memory")
HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"

_INTRODUCTION = """\
# Benchmarks

Written by `make bench`; do not edit. Single-threaded; peers run in the same process on the same
data. Times are measured with the wall clock on the machine named below and mean something only in
comparison with one another.
"""


def run_all() -> int:
    """Return the number of checks that do not hold."""
    parts, failed = [_INTRODUCTION], 0
    for name in NAMES:
        command = [sys.executable, str(HERE / f"{name}.py"), "--json", *sys.argv[1:]]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
        result = json.loads(done.stdout)
        report = Report(name, [Check(**check) for check in result["checks"]], result["rows"])
        failed += sum(not check.holds for check in report.checks)
        about = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
        parts.append(f"## {name}\n\n{about}\n\n{report.markdown()}")
    PAGE.write_text("\n".join(parts))
    print(f"wrote {PAGE.name}; {failed} checks do not hold")
    return failed


if __name__ == "__main__":
    sys.exit(1 if run_all() else 0)
