"""Calibration: sizes, medians and held-out errors, with a clock that the learner itself moves."""

import ctypes
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dealfl.errors import BadInput
from dealfl.learners import Work, statistics_of
from dealfl.memory import keep_freed_memory
from dealfl.power import TrainingTime
from dealfl.report import calibration
from dealfl.report.calibration import (
    QUICK,
    SUBJECTS,
    Calibration,
    Effort,
    Subject,
    calibrated,
    clock_hz,
    fitted,
)

LAW = TrainingTime(seconds_per_operation=2e-9, overhead_s=1e-3)
TRIED = Effort(sizes=9, repeats=5)


@dataclass
class Clock:
    """A clock that stands still unless somebody works."""

    now_s: float = 0.0
    worked: list[int] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Learner:
    """Learns nothing, but takes its time."""

    clock: Clock
    time_of: Callable[[int, int], float]  # of the operations, and of how many came before
    last_work: Work = field(default_factory=lambda: Work(0, 0))

    def learn(self, rows: list[None]) -> None:
        operations = 1000 * len(rows)
        self.clock.now_s += self.time_of(operations, len(self.clock.worked))
        self.clock.worked.append(operations)
        self.last_work = Work(operations, 0)

    def forget(self, rows: list[None]) -> None:
        self.learn(rows)
        self.clock.now_s += 2.0 * self.time_of(1000 * len(rows), len(self.clock.worked))


@pytest.fixture
def fit_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def fit(time_of: Callable[[int, int], float], **settings: Any) -> Any:
        clock = Clock()
        fake = {"fake": lambda: Learner(clock, time_of)}
        monkeypatch.setattr("dealfl.report.subjects.LEARNERS", fake)
        subject = Subject("fake", {}, lambda generator, count: ([None] * count,), 10, 2000)
        return fitted(subject, TRIED, clock=clock, **settings)

    return fit


def test_a_learner_that_obeys_the_law_is_fitted_exactly(fit_of: Callable[..., Any]) -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations))
    assert fit.time.seconds_per_operation == pytest.approx(2e-9)
    assert fit.time.overhead_s == pytest.approx(1e-3)
    assert fit.median_error < 1e-9
    assert fit.worst_error < 1e-9


def test_forgetting_has_a_law_of_its_own(fit_of: Callable[..., Any]) -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations), action="forget")
    assert fit.action == "forget"
    assert fit.time.seconds_per_operation == pytest.approx(3 * 2e-9)
    assert fit.time.overhead_s == pytest.approx(3e-3)
    assert fit.worst_error < 1e-9


def test_a_worker_is_timed_with_the_records_of_a_journal() -> None:
    for subject in SUBJECTS:
        generator = np.random.default_rng(1)
        batch = subject.batch(generator, subject.fewest)
        model = subject.made()
        model.learn(*batch)
        statistics, work = statistics_of(subject.made, calibration._records(batch))
        assert statistics == model.statistics
        assert work.operations == model.last_work.operations


def test_what_forgetting_is_like_is_shown_and_asked_of_nobody(fit_of: Callable[..., Any]) -> None:
    bad = fit_of(lambda operations, before: 1e-12 * operations**2, action="forget")
    found = Calibration((bad,), None, memory_kept=False)
    assert found.holds
    assert found.as_dict()["learners"] == {}
    assert found.as_dict()["forgetting"]["fake"]["median_error"] > calibration.ASKED_ERROR  # type: ignore[index]


def test_held_out_sizes_lie_between_the_fitted_and_span_nearly_two_decades(
    fit_of: Callable[..., Any],
) -> None:
    points = fit_of(lambda operations, before: LAW.predicted_s(operations)).points
    assert [point.held_out for point in points] == [False, True] * 4 + [False]
    assert [points[0].examples, points[-1].examples] == [10, 2000]
    assert all(point.operations == 1000 * point.examples for point in points)


@pytest.mark.parametrize("effort", [calibration.FULL, calibration.QUICK])
def test_the_held_out_sizes_of_every_learner_span_two_decades_of_rows_or_nearly(
    effort: Effort,
) -> None:
    for subject in SUBJECTS:
        step = (subject.most / subject.fewest) ** (1 / (effort.sizes - 1))
        assert subject.most / subject.fewest >= 200
        assert subject.most / subject.fewest / step**2 >= 60


def test_a_few_disturbed_trainings_change_nothing(fit_of: Callable[..., Any]) -> None:
    fit = fit_of(
        lambda operations, before: LAW.predicted_s(operations) * (50.0 if before % 7 == 0 else 1.0)
    )
    assert fit.time.seconds_per_operation == pytest.approx(2e-9, rel=0.01)
    assert fit.median_error < 0.01


def test_the_first_trainings_do_not_count(fit_of: Callable[..., Any]) -> None:
    fit = fit_of(
        lambda operations, before: LAW.predicted_s(operations) * (9.0 if before < 18 else 1.0)
    )
    assert fit.worst_error < 1e-9


def test_a_learner_that_slows_down_with_time_slows_down_at_all_sizes(
    fit_of: Callable[..., Any],
) -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations) * (1 + before / 100))
    assert fit.worst_error < 0.15  # were sizes timed one after the other, it would be far off


def test_a_learner_that_does_not_obey_the_law_is_found_out(fit_of: Callable[..., Any]) -> None:
    fit = fit_of(lambda operations, before: 1e-12 * operations**2)
    assert fit.median_error > calibration.ASKED_ERROR
    assert not Calibration((fit,), None, memory_kept=False).holds


def test_the_clock_is_taken_out_of_the_slope(fit_of: Callable[..., Any]) -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations), frequency_hz=2e9)
    assert fit.time.seconds_per_operation == pytest.approx(4e-9)  # at 1 GHz: four cycles each
    assert fit.time.predicted_s(1e6, frequency_hz=2e9) == pytest.approx(LAW.predicted_s(1e6))
    assert fit.worst_error < 1e-9


def test_a_profile_is_written_and_read_back(fit_of: Callable[..., Any], tmp_path: Path) -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations))
    path = tmp_path / "here.json"
    Calibration((fit,), 2e9, memory_kept=True).save(path)
    profile = json.loads(path.read_text())
    assert TrainingTime(**profile["learners"]["fake"]["time"]) == fit.time
    assert profile["source"] == "measured as processor time"
    assert profile["memory_kept"] is True
    assert len(profile["learners"]["fake"]["points"]) == TRIED.sizes
    assert list(tmp_path.iterdir()) == [path]


def test_a_profile_that_can_not_be_written_is_refused(
    fit_of: Callable[..., Any], tmp_path: Path
) -> None:
    fit = fit_of(lambda operations, before: LAW.predicted_s(operations))
    with pytest.raises(BadInput, match="can not be written"):
        Calibration((fit,), None, memory_kept=False).save(tmp_path / "none" / "here.json")


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.learner)
def test_every_real_learner_can_be_timed_and_its_operations_grow_with_the_batch(
    subject: Subject,
) -> None:
    generator = np.random.default_rng(0)
    operations = []
    for size in (subject.fewest, 10 * subject.fewest):
        model = subject.made()
        batch = subject.batch(generator, size)
        model.learn(*batch)
        model.check()
        operations.append(model.last_work.operations)
        model.forget(*(part[: subject.fewest] for part in batch))
        model.check()
    assert 4 * operations[0] < operations[1] < 25 * operations[0]


def test_the_learners_of_the_paper_are_all_calibrated() -> None:
    assert {subject.learner for subject in SUBJECTS} == {
        "tikhonov", "tikhonov_classifier", "naive_bayes", "neighbors", "personalized_pagerank",
    }  # fmt: skip


def test_progress_names_each_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "fitted", lambda subject, effort, **given: subject)
    lines: list[str] = []
    found = calibrated(QUICK, progress=lines.append)
    assert [fit.learner for fit in found.fits[::3]] == [subject.learner for subject in SUBJECTS]
    assert found.fits[::3] == found.fits[1::3] == found.fits[2::3]  # learn, forget, train
    assert lines[0] == "1/5 tikhonov"
    assert len(lines) == len(SUBJECTS)


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
