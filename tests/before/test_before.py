"""This version beside results that an earlier one wrote: the same integers, choices and figures."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dealfl.learners import Statistics, load
from tests.before import record

RESULTS = Path(__file__).parent / "results"
LEARNERS = record.learners()
SHORT: dict[str, Any] = json.loads((RESULTS / "short_runs.json").read_text("utf-8"))


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


@pytest.mark.soak
def test_whole_runs_come_out_as_before(require_data: Callable[[str], None]) -> None:
    before = json.loads((RESULTS / "whole_runs.json").read_text("utf-8"))
    for name in before:
        require_data(name.rpartition("-")[2])
    for name, now in record.whole_runs():
        _require_same(before[name], now, name)
