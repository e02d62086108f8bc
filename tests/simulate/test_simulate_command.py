"""`dealfl simulate` as a person and as a program see it."""

import argparse
import io
import json
from pathlib import Path

import pytest

from dealfl.cli import simulate
from dealfl.errors import BadInput
from dealfl.report import ProgressLine
from dealfl.simulate import Outcome, Progress, SweepProgress
from tests.simulate.fleets import TEXT


def run(*words: str) -> int:
    top = argparse.ArgumentParser()
    simulate.COMMAND(top.add_subparsers(), "simulate")
    arguments = top.parse_args(["simulate", *words])
    return int(arguments.run(arguments))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "fleet.toml"
    path.write_text(TEXT.replace("rounds = 8", 'name = "a small fleet"\nrounds = 2'))
    return str(path)


def test_a_person_reads_a_table_and_a_verdict(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file) == 0
    told = capsys.readouterr().out
    assert told.startswith("a small fleet: 15 workers\n")
    for words in (
        "rounds by majority",
        "accuracy",
        "energy, modelled",
        "  radio",
        "virtual time",
        "equals that of central training",
    ):
        assert words in told
    assert "±" not in told


def test_several_seeds_are_reported_with_intervals(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "--seeds", "2", "--vary", "job.scheme=deal,newfl") == 0
    told = capsys.readouterr().out
    assert told.count("mean over 2 seeds") == 1
    head, first, second, difference = told.splitlines()[1:5]
    assert first.lstrip().startswith("job.scheme = deal")
    assert second.lstrip().startswith("job.scheme = newfl")
    assert difference.lstrip().startswith("minus the first")
    assert head.split("  ")[-1] == "median delay"
    assert all("±" in line for line in (first, second, difference))


def test_a_required_key_can_be_given_by_vary_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(TEXT.replace("concentration = 0.5\n", "").replace("rounds = 8", "rounds = 1"))
    with pytest.raises(BadInput, match="the key 'concentration' is missing"):
        run(str(path))
    assert run(str(path), "--vary", "data.concentration=0.5,5") == 0
    told = capsys.readouterr().out
    assert "data.concentration = 0.5" in told
    assert "data.concentration = 5" in told


def test_values_of_a_key_may_have_any_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fleet.toml"
    job = TEXT.replace("rounds = 8", 'rounds = 2\nselector = "fair_ucb"')
    path.write_text(f"{job}\n[selection]\nfairness = 0.3\neta = 0.1\n")
    told = []
    for order in ("fair_ucb,everyone", "everyone,fair_ucb"):
        assert run(str(path), "--vary", f"job.selector={order}", "--json") == 0
        settings = json.loads(capsys.readouterr().out)["settings"]
        told.append({one["values"]["job.selector"]: one["estimates"] for one in settings})
    assert told[0] == told[1]


def test_a_program_reads_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set", "faults.loss=0.0", "--set", "job.scheme=newfl", "--set", 'job.name="x = y"']
    assert run(file, "--seeds", "2", "--vary", "job.forget_fraction=0.1,0.5", "--json", *words) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert [one["values"] for one in settings] == [
        {"job.forget_fraction": "0.1"}, {"job.forget_fraction": "0.5"},
    ]  # fmt: skip
    assert settings[0]["outcomes"][0]["job"] == "x = y"
    assert settings[0]["outcomes"][0]["exact"] is True
    assert settings[0]["estimates"]["updates"]["count"] == 2
    assert len(settings[0]["outcomes"][0]["rounds"]) == 2


@pytest.mark.parametrize("word", ["job.rounds", "=3", "job.rounds="])
@pytest.mark.parametrize("option", ["--set", "--vary"])
def test_a_value_without_a_key_is_refused(file: str, option: str, word: str) -> None:
    with pytest.raises(BadInput, match="write KEY=VALUE"):
        run(file, f"{option}={word}")


def test_bad_input_is_reported(file: str) -> None:
    for words in (["none.toml"], [file, "--set", "job.ronds=3"], [file, "--seeds", "0"]):
        with pytest.raises(BadInput):
            run(*words)


def test_a_difference_is_reported_with_exit_code_1(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Outcome, "exact", property(lambda self: False))
    assert run(file, "--set", "job.seed=9") == 1
    assert "NOT EXACT with seed 9" in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _progress(place: int) -> Progress:
    return Progress(
        rounds=place, of_rounds=9, of_h=0.0, virtual_s=3600.0 * place, quality=0.5, workers=4,
        asleep=1, selected=2, learned=10, evicted=0, compute_j=1.0, operating_j=0.5, radio_j=2.0,
        last=None,
    )  # fmt: skip


def _shown(stream: io.StringIO, moments: list[float]) -> str:
    now_s = [0.0]
    line = ProgressLine(stream, lambda: now_s[0])
    for place, now_s[0] in enumerate(moments):
        line.show_sweep(SweepProgress(1, 2, _progress(place)))
    line.clear()
    return stream.getvalue()


def test_progress_is_one_changing_line_on_a_terminal_and_few_lines_elsewhere() -> None:
    live = _shown(Terminal(), [0.1, 0.3, 0.35, 0.6])
    assert live.count("\r") == 4
    assert "simulation 1 of 2, round 1 of 9" in live
    assert "\n" not in live
    told = _shown(io.StringIO(), [1.0, 2.5, 4.0, 7.6])
    assert told.count("\n") == 2
    assert "round 3 of 9, 3 h 0 min virtual time, quality 0.5000" in told
    assert _shown(io.StringIO(), [0.5, 1.0]) == "", "a short simulation needs no progress"
