"""Calibration: sizes, medians and held-out errors, with a clock that the learner itself moves."""

import ctypes
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dealfl.errors import BadInput
from dealfl.learners import LEARNERS, TimedLearner, Workload, statistics_of
from dealfl.power import TrainingTime
from dealfl.power.calibration import (
    FULL,
    QUICK,
    TARGET_ERROR,
    Calibration,
    Effort,
    Fit,
    calibrate,
    clock_hz,
    fit_law,
)
from dealfl.storage import keep_freed_memory

LAW = TrainingTime(seconds_per_operation=2e-9, overhead_s=1e-3)
TRIED = Effort(sizes=9, repeats=5)


WORKLOADS = {name: kind.workload for name, kind in LEARNERS.items() if kind.workload}


@dataclass
class Fake:
    """Learns nothing, but takes its time."""

    time_of: Callable[[int, int], float]  # of the operations, and of how many calls came before
    calls: int = 0
    name: str = "fake"
    actions: Sequence[str] = ("learn", "forget")
    fewest: int = 10
    most: int = 2000

    def call(self, action: str, sizes: Sequence[int]) -> Callable[[int], tuple[int, float]]:
        def timed(place: int) -> tuple[int, float]:
            operations = 1000 * sizes[place]
            elapsed_s = self.time_of(operations, self.calls)
            self.calls += 1
            return operations, elapsed_s * (3.0 if action == "forget" else 1.0)

        return timed


def fit_of(time_of: Callable[[int, int], float], **settings: Any) -> Fit:
    return fit_law(Fake(time_of), TRIED, **settings)


def test_a_learner_that_obeys_the_law_is_fitted_exactly() -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations))
    assert fit.time.seconds_per_operation == pytest.approx(2e-9)
    assert fit.time.overhead_s == pytest.approx(1e-3)
    assert fit.median_error < 1e-9
    assert fit.worst_error < 1e-9


def test_forgetting_has_a_law_of_its_own() -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations), action="forget")
    assert fit.action == "forget"
    assert fit.time.seconds_per_operation == pytest.approx(3 * 2e-9)
    assert fit.time.overhead_s == pytest.approx(3e-3)
    assert fit.worst_error < 1e-9


@pytest.mark.parametrize(("name", "workload"), WORKLOADS.items())
def test_a_worker_is_timed_with_the_records_of_a_journal(name: str, workload: Workload) -> None:
    batch = workload.batch(np.random.default_rng(1), workload.fewest)
    model = TimedLearner(LEARNERS[name], workload).made()
    model.learn(*batch)
    make = TimedLearner(LEARNERS[name], workload).made
    statistics, work = statistics_of(make, LEARNERS[name].records_of(*batch))
    assert statistics == model.statistics
    assert work.operations == model.last_work.operations


def test_what_forgetting_is_like_is_shown_and_asked_of_nobody() -> None:
    bad = fit_of(lambda operations, before: 1e-12 * operations**2, action="forget")
    found = Calibration((bad,), None, memory_kept=False)
    assert found.holds
    assert found.as_dict()["learners"] == {}
    assert found.as_dict()["forgetting"]["fake"]["median_error"] > TARGET_ERROR  # type: ignore[index]


def test_held_out_sizes_lie_between_the_fitted_and_span_nearly_two_decades() -> None:
    points = fit_of(lambda operations, before: LAW.predicted_s(operations)).points
    assert [point.held_out for point in points] == [False, True] * 4 + [False]
    assert [points[0].examples, points[-1].examples] == [10, 2000]
    assert all(point.operations == 1000 * point.examples for point in points)


@pytest.mark.parametrize("effort", [FULL, QUICK])
def test_the_held_out_sizes_of_every_learner_span_two_decades_of_rows_or_nearly(
    effort: Effort,
) -> None:
    for subject in WORKLOADS.values():
        step = (subject.most / subject.fewest) ** (1 / (effort.sizes - 1))
        assert subject.most / subject.fewest >= 200
        assert subject.most / subject.fewest / step**2 >= 60


def test_a_few_disturbed_trainings_change_nothing() -> None:
    fit = fit_of(
        lambda operations, before: LAW.predicted_s(operations) * (50.0 if before % 7 == 0 else 1.0)
    )
    assert fit.time.seconds_per_operation == pytest.approx(2e-9, rel=0.01)
    assert fit.median_error < 0.01


def test_the_first_trainings_do_not_count() -> None:
    fit = fit_of(
        lambda operations, before: LAW.predicted_s(operations) * (9.0 if before < 18 else 1.0)
    )
    assert fit.worst_error < 1e-9


def test_a_learner_that_slows_down_with_time_slows_down_at_all_sizes() -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations) * (1 + before / 100))
    assert fit.worst_error < 0.15  # were sizes timed one after the other, it would be far off


def test_a_learner_that_does_not_obey_the_law_is_found_out() -> None:
    fit = fit_of(lambda operations, before: 1e-12 * operations**2)
    assert fit.median_error > TARGET_ERROR
    assert not Calibration((fit,), None, memory_kept=False).holds


def test_the_clock_is_taken_out_of_the_slope() -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations), frequency_hz=2e9)
    assert fit.time.seconds_per_operation == pytest.approx(4e-9)  # at 1 GHz: four cycles each
    assert fit.time.predicted_s(1e6, frequency_hz=2e9) == pytest.approx(LAW.predicted_s(1e6))
    assert fit.worst_error < 1e-9


def test_a_profile_is_written_and_read_back(tmp_path: Path) -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations))
    path = tmp_path / "here.json"
    Calibration((fit,), 2e9, memory_kept=True).save(path)
    profile = json.loads(path.read_text())
    assert TrainingTime(**profile["learners"]["fake"]["time"]) == fit.time
    assert profile["source"] == "measured as processor time"
    assert profile["memory_kept"] is True
    assert len(profile["learners"]["fake"]["points"]) == TRIED.sizes
    assert list(tmp_path.iterdir()) == [path]


def test_a_profile_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations))
    with pytest.raises(BadInput, match="cannot be written"):
        Calibration((fit,), None, memory_kept=False).save(tmp_path / "none" / "here.json")


@pytest.mark.parametrize(("name", "workload"), WORKLOADS.items())
@pytest.mark.parametrize("action", TimedLearner.actions)
def test_every_learner_can_be_timed_and_its_operations_grow_with_the_batch(
    name: str, workload: Workload, action: str
) -> None:
    ticks = itertools.count()
    timed = TimedLearner(LEARNERS[name], workload, clock=lambda: float(next(ticks)))
    call = timed.call(action, [workload.fewest, 10 * workload.fewest])
    (few, few_s), (many, many_s) = call(0), call(1)
    assert 4 * few < many < (1e5 if action == "review" else 25) * few  # a factor grows as d³
    assert few_s == many_s == 1.0


@pytest.mark.parametrize("action", TimedLearner.actions)
def test_a_single_size_can_be_timed(action: str) -> None:
    timed = TimedLearner(LEARNERS["naive_bayes"], WORKLOADS["naive_bayes"])
    operations, _ = timed.call(action, [20])(0)
    assert operations > 0


def test_all_learners_are_calibrated() -> None:
    assert set(WORKLOADS) == set(LEARNERS)


def test_progress_names_each_learner() -> None:
    lines: list[str] = []
    law = Fake(lambda operations, before: LAW.predicted_s(operations))
    found = calibrate([law, replace(law, name="other")], QUICK, progress=lines.append)
    assert [fit.learner for fit in found.fits] == ["fake", "fake", "other", "other"]
    assert [fit.action for fit in found.fits] == ["learn", "forget"] * 2
    assert lines == ["1/2 fake", "2/2 other"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu MHz\t\t: 2600.0\ncpu MHz\t\t: 3100.5\n", 3100.5e6),
        ("processor : 0\nBogoMIPS : 38.40\n", None),
        ("cpu MHz : garbage\n", None),
        ("cpu MHz : 0.000\n", None),
    ],
)
def test_the_clock_is_what_the_kernel_states(
    tmp_path: Path, text: str, expected: float | None
) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert clock_hz(tmp_path / "cpuinfo") == expected
    assert clock_hz(tmp_path / "none") is None


def test_a_c_library_without_the_setting_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert keep_freed_memory() is False
