"""The Grafana board uses metrics that exist; the units of systemd start commands that exist."""

import json
import re
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from dealfl.cli import parser
from dealfl.runs import RunFolder, read_status
from dealfl.runs.status import Collector
from tests.runs.made_runs import make_run

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "examples/systemd").glob("*.service"))


def test_the_board_uses_metrics_that_exist_and_all_of_them(tmp_path: Path) -> None:
    make_run(tmp_path)
    registry = CollectorRegistry()
    registry.register(Collector(partial(read_status, RunFolder.at(tmp_path))))
    served = {
        line.partition("{")[0].partition(" ")[0]
        for line in generate_latest(registry).decode().splitlines()
        if not line.startswith("#")
    }
    board = json.loads((ROOT / "examples/grafana/dealfl.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    used = {name for query in queries for name in re.findall(r"dealfl_\w+", query)}
    assert used - served == set()
    assert {name for name in served - used if not re.search("_(info|count|sum)$", name)} == set()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_exists(unit: Path) -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    program, *words = shlex.split(line)
    assert Path(program).name == "dealfl"
    parser(words[0]).parse_args(words)  # ends the process if an option is unknown


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    assert len(UNITS) == 3
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    for unit in UNITS:  # the program is not installed where the units expect it
        text = unit.read_text().replace("/opt/dealfl/bin/dealfl", "/bin/true")
        (tmp_path / unit.name.replace("@", "@w1")).write_text(text)
    files = sorted(map(str, tmp_path.glob("*.service")))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files], capture_output=True, text=True
    )
    wrong = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert wrong == []
