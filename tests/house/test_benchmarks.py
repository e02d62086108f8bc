"""Every benchmark can be started by itself: `python benchmarks/NAME.py`."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"

# As for a script, the folder of the benchmarks is on the path and the root of the project is not.
IMPORT_EACH = """
import importlib, pathlib, sys

root = str(pathlib.Path(sys.argv[1]).parent)
first = [sys.argv[1], *(entry for entry in sys.path if entry not in ("", root))]
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    sys.path[:] = first
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]
    sys.modules.pop(path.stem, None)
    importlib.import_module(path.stem)
    print(path.stem)
"""


def test_every_benchmark_finds_what_it_imports() -> None:
    command = [sys.executable, "-c", IMPORT_EACH, str(FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == sorted(path.stem for path in FOLDER.glob("*.py"))
