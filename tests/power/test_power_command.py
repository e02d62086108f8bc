import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dealfl.cli.devices import COMMAND
from dealfl.errors import BadInput, UnknownName
from dealfl.power import PHONES
from tests.power.test_power_profiles import PLAIN


def run(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="dealfl")
    COMMAND(parser.add_subparsers(), "devices")
    arguments = parser.parse_args(["devices", *words])
    code = arguments.run(arguments)
    assert isinstance(code, int)
    return code


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


def test_the_list_shows_every_phone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "CORES", "CLOCK", "BATTERY", "CURRENTS", "MODEL"]
    assert [line.split()[0] for line in lines] == list(PHONES)
    assert "2.11 GHz" in lines[0]
    assert "3000 mAh" in lines[0]
    assert "derived" in lines[0]


def test_the_list_as_json_says_how_well_each_value_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("--json") == 0
    rows = said(capsys)["devices"]
    assert [row["name"] for row in rows] == list(PHONES)
    assert rows[0]["quality"]["cycle_factor"] == "declared"
    assert rows[0]["max_hz"] == 2_112_000_000


def test_show_draws_the_curve_and_marks_the_frontier(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "honor") == 0
    told = capsys.readouterr().out
    awake, wifi, screen = told.split("\n\n")[1:4]
    assert awake.startswith("awake (43 mA)")
    assert wifi.startswith("awake, wifi active (171 mA)")
    assert screen.startswith("awake, screen on (157 mA)")
    marks = {line.split()[1]: line for line in awake.splitlines() if " MHz " in line}
    assert len(marks) == 8
    assert "◆  16.86" in marks["1402.0"]
    assert "●  17.17" in marks["1805.0"]
    assert "●" not in marks["2016.0"]
    assert "●  18.67" in marks["2112.0"]
    assert "compared with the fastest: 9.7%" in awake
    assert wifi.count("●") == 0
    assert "◆  35.51" in wifi or "◆  35.50" in wifi
    lengths = {mhz: line.count("█") for mhz, line in marks.items()}
    assert lengths["480.0"] == 40  # the dearest fills the width
    assert lengths["1402.0"] == round(40 * 16.86 / 30.32 - 0.5)
    assert "wifi.tail_s" in told


def test_show_as_json_has_points_frontier_and_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", "show", "mi") == 0
    mi = said(capsys)
    assert mi["source"] == "modelled"
    assert [load["base_load"] for load in mi["base_loads"]] == [
        "awake", "awake, wifi active", "awake, screen on",
    ]  # fmt: skip
    awake = mi["base_loads"][0]
    assert awake["critical"]["frequency_hz"] == 787_200_000
    assert awake["saving_against_fastest"] == pytest.approx(0.721, abs=0.001)
    efficient = [p["frequency_hz"] for p in awake["points"] if p["efficient"]]
    assert efficient == awake["frontier_hz"]
    assert len(awake["points"]) == 20
    assert "libra" in mi["evidence"]["wifi.active_ma"]["source"]


def test_show_reads_a_users_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PLAIN)
    assert run("show", str(path)) == 0
    assert "mine: A phone of my own" in capsys.readouterr().out


def test_a_phone_that_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no phone called 'pixel'"):
        run("show", "pixel")
    with pytest.raises(BadInput, match="cannot be read"):
        run("show", str(tmp_path / "none.toml"))


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run("--help")
    assert stop.value.code == 0
    assert "dealfl devices show honor" in capsys.readouterr().out.partition("examples:")[2]


def test_the_command_and_the_package_load_nothing_heavy() -> None:
    code = "import sys, dealfl.cli.devices; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"dealfl.power", "tomllib", "numpy"}.isdisjoint(done.stdout.split())
