"""`python -m checks`: the size, unreachable names, plain English, complete docstrings."""

import sys
import tomllib
from pathlib import Path

from checks.docstrings import PUBLIC, public_modules, undocumented
from checks.english import unplain
from checks.reachable import Source, imported_by, unreachable
from checks.sizes import report
from dealfl import cli

ROOT = Path(__file__).parents[1]
_OFFERED = (*PUBLIC, "dealfl.flower", "dealfl.learners.checks")
_AT_IMPORT = (("dealfl.exact", "require_machine"), ("dealfl.loading", "load_when_used"))


def _unreachable() -> list[str]:
    source = Source(ROOT / "src" / "dealfl", ROOT / "src" / "dealfl_paper")
    offered = [(module, name) for module in _OFFERED for name in source.modules[module].exported]
    commands = [("dealfl.cli", "main"), ("dealfl.__main__", ""), *_commands(), *_entry_points()]
    plug_ins = imported_by(ROOT / "examples" / "plugin")
    return unreachable(source, [*offered, *commands, *plug_ins, *_AT_IMPORT])


def _commands() -> list[tuple[str, str]]:
    """Return the module and the name of each command, which are loaded when they are used."""
    homes = (home.split(".") for home in cli._COMMANDS.values())
    return [(f"dealfl.cli.{module}", name) for module, name in homes]


def _entry_points() -> list[tuple[str, str]]:
    """Return what the entry points of this distribution name: commands and files of the paper."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    values = [value for group in project["entry-points"].values() for value in group.values()]
    return [(module, name) for module, _, name in (value.partition(":") for value in values)]


def _read_by_people() -> list[Path]:
    """Return the pages, the examples, and the modules whose strings are shown."""
    patterns = (
        "*.md", "Makefile", "docs/*.md", "arm64/*.py", "containers/*", "benchmarks/*.py",
        "examples/**/*.md", "examples/**/*.toml", "examples/**/*.py", "src/**/*.py",
        "src/**/*.toml", "src/**/*.js",
    )  # fmt: skip
    return [path for pattern in patterns for path in ROOT.glob(pattern)]


def main() -> int:
    """Print what is wrong, and the size of the source; return 1 if something is wrong."""
    problems = [
        *(f"{name}: no command, front door or plug-in reaches it" for name in _unreachable()),
        *unplain(_read_by_people()),
        *undocumented(public_modules()),
    ]
    print("\n".join(report(ROOT)))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
