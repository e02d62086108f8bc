"""This version beside results that an earlier one wrote: the same integers, choices and figures."""

import json
import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dealfl.learners import Statistics, load
from tests.before import record

RESULTS = Path(__file__).parent / "results"
LEARNERS = record.learners()


def _read(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((RESULTS / name).read_text("utf-8"))
    return read


SHORT = _read("short_runs.json")
FLEETS, PAGED, API = _read("fleets.json"), _read("paged.json"), _read("api.json")
ERASURES, MESSAGES = _read("erasures.json"), _read("messages.json")


def _require_same(before: Any, now: Any, place: str) -> None:
    """Digests, counts and names to the letter; figures to nine digits, which BLAS may round."""
    if isinstance(before, dict):
        assert before.keys() == now.keys(), place
        for key in before:
            _require_same(before[key], now[key], f"{place}.{key}")
    elif isinstance(before, list):
        assert len(before) == len(now), place
        for number, (old, new) in enumerate(zip(before, now, strict=True)):
            _require_same(old, new, f"{place}.{number}")
    elif isinstance(before, float):
        assert math.isclose(before, now, rel_tol=1e-9), f"{place}: {before} before, {now} now"
    else:
        assert before == now, f"{place}: {before} before, {now} now"


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_a_learner_has_the_statistics_it_had_before(name: str) -> None:
    data = (RESULTS / f"{name}.statistics").read_bytes()
    assert LEARNERS[name].statistics.to_bytes() == data
    assert Statistics.from_bytes(data).digest() == LEARNERS[name].digest()


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_a_model_saved_before_can_be_loaded(name: str) -> None:
    loaded = load(RESULTS / f"{name}.model")
    assert loaded.digest() == LEARNERS[name].digest()
    assert loaded.settings == LEARNERS[name].settings


@pytest.mark.parametrize("name", sorted(SHORT))
def test_a_short_run_comes_out_as_before(name: str, require_data: Callable[[str], None]) -> None:
    require_data(name.rpartition("-")[2])
    job = None if name == "digits" else next(job for job in record.JOBS if job.stem == name)
    now = (
        record.run(None, record.DIGITS)
        if job is None
        else record.run(job, record.SHORT, "--no-compare")
    )
    _require_same(SHORT[name], now, name)


@pytest.mark.parametrize("name", sorted(FLEETS))
def test_a_fleet_comes_out_as_before(name: str, require_data: Callable[[str], None]) -> None:
    require_data(tomllib.loads(record.FLEETS[name].read_text("utf-8"))["job"]["dataset"])
    _require_same(FLEETS[name], record.short_fleet(name), name)


@pytest.mark.parametrize("name", sorted(PAGED))
def test_a_paged_model_swaps_and_costs_as_before(name: str) -> None:
    _require_same(PAGED[name], record.paged_run(name), name)


@pytest.mark.parametrize("kind", sorted(API))
def test_a_run_from_arrays_comes_out_as_before(kind: str) -> None:
    _require_same(API[kind], record.api_run(kind), kind)


@pytest.mark.parametrize("kind", sorted(ERASURES))
def test_an_erasure_is_certified_as_before(kind: str) -> None:
    _require_same(ERASURES[kind], record.erasure(kind), kind)


@pytest.fixture(scope="module")
def messages() -> dict[str, Any]:
    return record.messages()


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_bad_input_is_answered_as_before(name: str, messages: dict[str, Any]) -> None:
    assert messages[name] == MESSAGES[name]


@pytest.mark.soak
def test_whole_runs_come_out_as_before(require_data: Callable[[str], None]) -> None:
    before = _read("whole_runs.json")
    for name in before:
        require_data(name.rpartition("-")[2])
    for name, now in record.whole_runs():
        _require_same(before[name], now, name)
