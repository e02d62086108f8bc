"""Run benchmarks, each in a process of its own, and write docs/benchmarks.md.

python benchmarks/run_all.py                    all of them
python benchmarks/run_all.py energy memory      only these; the others' sections stay
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from growth import draw as draw_growth
from reporting import Check, Report

NAMES = (
    "exactness",
    "learners",
    "neighbors",
    "quality",
    "federation",
    "runs",
    "energy",
    "phone",
    "memory",
    "selection",
    "promise",
    "faults",
    "erasure",
    "mqtt",
)
HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
GROWTH = HERE.parent / "docs" / "images" / "forget_growth.svg"

_INTRODUCTION = """\
# Benchmarks

Written by `make bench`; do not edit. All benchmarks use one thread; peers run in the same process
on the same data. Times are measured on the machine named below and are comparable only with each
other. Figures for phones are modelled and labelled so.
"""


def sections() -> dict[str, str]:
    """Return the sections of the page as it is, by name."""
    text = PAGE.read_text() if PAGE.exists() else ""
    parts = re.split(r"^## (\w+)\n", text, flags=re.MULTILINE)
    return {
        name: f"\n{text.strip()}\n" for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def section_of(name: str) -> tuple[str, int]:
    """Run one benchmark; return its section and how many of its checks do not hold."""
    command = [sys.executable, str(HERE / f"{name}.py"), "--json"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    result = json.loads(done.stdout)
    report = Report(name, [Check(**check) for check in result["checks"]], result["rows"])
    if name == "learners":
        GROWTH.write_text(draw_growth(report.rows))
    about = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    return f"\n{about}\n\n{report.markdown()}\n", sum(not check.holds for check in report.checks)


def run_all(names: list[str]) -> int:
    """Return the number of checks that do not hold."""
    page, failed = sections(), 0
    for name in names:
        page[name], wrong = section_of(name)
        failed += wrong
    parts = [f"## {name}\n{page[name]}" for name in NAMES if name in page]
    PAGE.write_text("\n".join([_INTRODUCTION, *parts]))
    print(f"wrote {PAGE.name}; {failed} checks do not hold")
    return failed


if __name__ == "__main__":
    sys.exit(1 if run_all(sys.argv[1:] or list(NAMES)) else 0)
