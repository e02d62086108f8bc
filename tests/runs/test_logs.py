"""Logs: one line of JSON for each event, nothing personal, nothing forged."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dealfl.errors import BadInput
from dealfl.storage.logs import LOG, JsonLines, configure_logs, log


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    handlers, level, propagate = list(LOG.handlers), LOG.level, LOG.propagate
    yield
    for handler in [one for one in LOG.handlers if one not in handlers]:
        handler.close()
    LOG.handlers[:], LOG.propagate = handlers, propagate
    LOG.setLevel(level)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_event_has_its_place_and_figures(tmp_path: Path) -> None:
    configure_logs(tmp_path / "log.jsonl")
    log("round closed", job="digits", round=3, worker="w1", reason="majority", energy_j=1.5, n=7)
    (line,) = lines(tmp_path / "log.jsonl")
    moment = line.pop("time")
    assert moment.endswith("Z")
    assert len(moment) == len("2026-01-01T00:00:00.000Z")
    assert line == {
        "level": "info",
        "event": "round closed",
        "job": "digits",
        "round": 3,
        "worker": "w1",
        "reason": "majority",
        "figures": {"energy_j": 1.5, "n": 7},
    }


def test_nobody_can_forge_a_line(tmp_path: Path) -> None:
    configure_logs(tmp_path / "log.jsonl")
    evil = 'w1\n{"level": "error", "event": "all is lost"}\r\u2028\x1b[2J'
    log("worker joined", worker=evil, job=evil, reason=evil)
    raw = (tmp_path / "log.jsonl").read_bytes()
    assert raw.count(b"\n") == 1
    assert raw.isascii()
    assert b"\x1b" not in raw
    assert json.loads(raw)["worker"] == evil


def test_nothing_of_anybody_s_examples_gets_in(tmp_path: Path) -> None:
    configure_logs(tmp_path / "log.jsonl")
    secret = "Ann Example, born 1970"
    other = logging.getLogger("dealfl.jobs")
    other.warning("%s: %s rows so far", secret, 12)
    try:
        int(secret)
    except ValueError:
        other.exception("a row can not be used")
    log("odd figure", text=secret)  # type: ignore[arg-type]
    told = (tmp_path / "log.jsonl").read_text()
    assert "Ann" not in told
    assert "1970" not in told
    first, second, third = lines(tmp_path / "log.jsonl")
    assert first["figures"] == {"value2": 12}
    assert first["event"] == "…: 12 rows so far"
    assert second["error"]["kind"] == "ValueError"
    assert second["error"]["file"] == Path(__file__).name
    assert third["figures"] == {"text": None}


def test_a_file_rotates(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    configure_logs(path, largest_bytes=1000, kept=2)
    for number in range(100):
        log("tick", round=number)
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "log.jsonl",
        "log.jsonl.1",
        "log.jsonl.2",
    ]
    assert all(one.stat().st_size <= 1000 for one in tmp_path.iterdir())
    assert lines(path)[-1]["round"] == 99


def test_levels_are_kept_and_configuring_again_replaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(tmp_path / "first.jsonl", "warning")
    log("too quiet")
    log("loud", level="warning")
    assert [line["event"] for line in lines(tmp_path / "first.jsonl")] == ["loud"]
    configure_logs(None, "debug")
    log("to the terminal", level="debug")
    assert json.loads(capsys.readouterr().err)["event"] == "to the terminal"
    assert len(lines(tmp_path / "first.jsonl")) == 1


def test_bad_levels_and_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="log level is 'loud'; known: debug, info"):
        configure_logs(None, "loud")
    with pytest.raises(BadInput, match="cannot be written: No such file"):
        configure_logs(tmp_path / "no" / "log.jsonl")


def test_figures_that_json_has_no_word_for_are_texts() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    LOG.addHandler(handler)
    log("odd", level="error", ratio=float("nan"), most=float("inf"))
    assert json.loads(stream.getvalue())["figures"] == {"ratio": "nan", "most": "inf"}


@pytest.mark.parametrize(
    ("text", "values", "event"),
    [
        ("%s: %s rows (%s)", ("ann.csv", 12, "column 'x'"), "…: 12 rows (…)"),
        ("%.1f %% of %r in %d", (12.34, 5, 7), "12.3 % of … in 7"),
        ("%s and %s", ("one",), "… and …"),
        ("100 % sure", (), "100 % sure"),
        ("%(name)s", ({"name": "ann"},), "%(name)s"),
    ],
)
def test_no_template_is_left_in_a_log(text: str, values: tuple[object, ...], event: str) -> None:
    record = logging.LogRecord("dealfl", logging.INFO, "", 0, text, values, None)
    assert json.loads(JsonLines().format(record))["event"] == event
