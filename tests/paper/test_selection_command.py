"""`dealfl simulate selection` as a person and as a program see it."""

import json
import sys
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl_paper.laboratory import Course

SHORT = ["--seeds", "3", "--set", "setting.rounds=200"]


def test_a_person_reads_regrets_and_fractions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "selection", *SHORT]) == 0
    told = capsys.readouterr().out
    assert told.startswith("three workers: 3 workers, 2 per round, 200 rounds, 3 seeds\n")
    assert "optimum that meets all guarantees: 1.0380 per round (exact)" in told
    assert "below its bound" in told
    assert "guarantee           0.500     0.600     0.400" in told


def test_a_program_reads_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "selection", "six", *SHORT, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["optimum"]["reward"] == pytest.approx(1.77282, abs=1e-5)
    first = result["policies"][0]
    assert first["regret"]["count"] == result["seeds"] == 3
    assert first["regret"]["low"] < first["regret"]["mean"] < first["regret"]["high"]
    assert first["within_theory"] is True
    assert len(first["regret_over_time"]) == len(result["points"])


def test_a_page_needs_no_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["simulate", "selection", *SHORT, "--page", str(page)]) == 0
    text = page.read_text()
    assert "<script src=" not in text
    assert 'src="http' not in text
    assert "fair_ucb, eta 10" in text
    assert "Mean regret per round" in text
    assert "and its fairness guarantee" in text
    assert f"plots: {page}" in capsys.readouterr().out


def test_without_plotly_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    assert main(["simulate", "selection", *SHORT, "--page", str(tmp_path / "page.html")]) == 1
    assert "pip install 'dealfl[report]'" in capsys.readouterr().err


def test_a_file_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[setting]\nname = "mine"\nper_round = 1\nrounds = 50\n[workers]\nreward = [0.2, 0.9]\n'
    )
    assert main(["simulate", "selection", str(file), "--seeds", "1"]) == 0
    assert capsys.readouterr().out.startswith("mine: 2 workers, 1 per round, 50 rounds, 1 seed\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["seven"], "no preset called 'seven'; known: batteries, nights, six, three"),
        (["none.toml"], "none.toml cannot be read"),
        (["--seeds", "0"], "--seeds is 0; it must be a whole number ≥ 1"),
        (["--set", "setting.rouds=3"], "did you mean 'rounds'?"),
        (["--vary", "setting.rounds=1,2"], "--vary is not an option of selection"),
    ],
)
def test_bad_input_is_reported_with_exit_code_2(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "selection", *words]) == 2
    assert told in capsys.readouterr().err


def test_options_of_selection_do_not_go_with_a_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "fleet.toml", "--page", "page.html"]) == 2
    assert "are options of `dealfl simulate selection` only" in capsys.readouterr().err


def test_more_regret_than_theory_allows_is_reported_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Course, "within", lambda self, setting, points: False)
    assert main(["simulate", "selection", *SHORT]) == 1
    assert "ABOVE ITS BOUND" in capsys.readouterr().out


def test_wrong_choices_are_reported_with_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "selection", "--wrong-choices"]) == 0
    assert "not confirmed: in 13 of" in capsys.readouterr().out
    assert main(["simulate", "selection", "--wrong-choices", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"].startswith("not confirmed")
    assert {"mean", "median", "percentile_95", "tail"} <= set(result["choices"][0])


def test_help_has_examples_of_selection(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", "selection", "--help"])
    assert stopped.value.code == 0
    assert "dealfl simulate selection" in capsys.readouterr().out.partition("examples:")[2]
