import json
from pathlib import Path
from typing import Any

import pytest

from dealfl.cli import parser
from dealfl.data import CATALOG, Directories
from dealfl.errors import UnknownName


@pytest.fixture(autouse=True)
def empty_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEALFL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DEALFL_DATA", str(tmp_path / "data"))
    return tmp_path


def run(*words: str) -> int:
    arguments = parser().parse_args(["datasets", *words])
    code = arguments.run(arguments)
    assert isinstance(code, int)
    return code


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_the_list_shows_every_dataset_and_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "TASK", "ROWS", "x", "COLUMNS", "FOUND", "LICENCE"]
    rows = {line.split()[0]: line for line in lines}
    assert list(rows) == list(CATALOG)
    assert "581,012 x 55" in rows["covtype"]
    assert "can be downloaded" in rows["covtype"]
    assert "get it yourself" in rows["jester"]
    assert "generated" in rows["yearpredictionmsd-like"]
    assert "bundled with scikit-learn" in rows["digits"]
    assert "(a subset)" in rows["retailrocket"]


def test_the_list_as_json_is_one_object(
    empty_places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(empty_places / "cache/movielens/u.data", b"anything")
    put(empty_places / "data/jester/jester-data-1.csv", b"anything")
    assert run("--json") == 0
    found = {row["name"]: row["found"] for row in said(capsys)["datasets"]}
    assert found["movielens"] == "cache"
    assert found["jester"] == "DEALFL_DATA"


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run("--help")
    assert stop.value.code == 0
    assert "dealfl datasets fetch movielens" in capsys.readouterr().out


def test_fetching_what_needs_no_download_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "digits", "yearpredictionmsd-like") == 0
    assert capsys.readouterr().out.splitlines() == [
        "digits                  here  bundled with scikit-learn",
        "yearpredictionmsd-like  here  generated",
    ]


def test_fetching_continues_after_a_failure_and_fails_in_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("fetch", "--json", "jester", "digits") == 1
    first, second = said(capsys)["fetched"]
    assert (first["state"], second["state"]) == ("failed", "here")
    assert "eigentaste.berkeley.edu" in first["detail"]


@pytest.mark.parametrize("action", ["fetch", "check"])
def test_an_unknown_name_is_refused_before_anything_is_done(action: str) -> None:
    with pytest.raises(UnknownName, match="no dataset called 'mnist'"):
        run(action, "jester", "mnist")


def test_what_is_missing_fails_a_check_only_when_asked_for_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("check") == 0
    assert "missing" in capsys.readouterr().out
    assert run("check", "housing") == 1
    assert "run `dealfl datasets fetch housing`" in capsys.readouterr().out


def test_what_is_damaged_always_fails_a_check(
    empty_places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(empty_places / "data/housing/housing_scale", b"24 1:-1\n")
    for words in (("check",), ("check", "housing")):
        assert run("--json", *words) == 1
        states = {row["file"]: row["state"] for row in said(capsys)["checked"]}
        assert states["housing/housing_scale.gz"] == "damaged"


def test_what_is_sound_passes_a_check(
    real: Directories, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEALFL_DATA", str(real.data))
    assert run("check", "--json", "housing", "movielens", "digits") == 0
    assert [row["state"] for row in said(capsys)["checked"]] == ["ok", "ok", "ok"]
