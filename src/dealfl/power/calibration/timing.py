"""How long learners take on this machine: timed, fitted, and tested on other sizes."""

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

import numpy as np

from dealfl.atomic_files import replace_file
from dealfl.power.calibration.identification import TimedTraining, identified, relative_errors
from dealfl.power.training_time import REFERENCE_HZ, TrainingTime

__all__ = [
    "ASKED_ERROR", "FULL", "QUICK", "Calibration", "Effort", "Fit", "Point", "TimedLearner",
    "calibrate", "clock_hz", "fit_law",
]  # fmt: skip

ASKED_ERROR = 0.10  # median relative error on sizes that were not fitted


@dataclass(frozen=True, slots=True)
class Effort:
    """How many sizes are fitted, how many between them are held out, how often each is timed."""

    sizes: int
    repeats: int


FULL = Effort(sizes=17, repeats=31)
QUICK = Effort(sizes=11, repeats=9)


@dataclass(frozen=True, slots=True)
class Point:
    """The median time of one size, and what the fitted law says of it."""

    examples: int
    operations: int
    elapsed_s: float
    relative_error: float
    held_out: bool


@dataclass(frozen=True, slots=True)
class Fit:
    """The law of one learner's time to learn, to forget, or of a worker's to train with it."""

    learner: str
    time: TrainingTime
    points: tuple[Point, ...]
    action: str = "learn"

    @property
    def median_error(self) -> float:
        """The median relative error on held-out sizes."""
        return median(self._held_out_errors())

    @property
    def worst_error(self) -> float:
        """The largest relative error on held-out sizes."""
        return max(self._held_out_errors())

    def as_dict(self) -> dict[str, object]:
        """Return all of it for a JSON file."""
        return {
            "time": asdict(self.time),
            "median_error": self.median_error,
            "worst_error": self.worst_error,
            "points": [asdict(point) for point in self.points],
        }

    def _held_out_errors(self) -> list[float]:
        return [abs(point.relative_error) for point in self.points if point.held_out]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The laws of all learners on one machine; one core, at the clock the kernel states."""

    fits: tuple[Fit, ...]
    frequency_hz: float | None
    memory_kept: bool

    @property
    def holds(self) -> bool:
        """Whether every learner's time to learn is predicted as well as asked.

        Nothing is asked of forgetting: mending an index is not affine in the operations of the
        statistics, and its residuals say by how much.
        """
        return all(fit.median_error <= ASKED_ERROR for fit in self.fits if fit.action == "learn")

    def as_dict(self) -> dict[str, object]:
        """Return all of it for a JSON file."""
        return {
            "version": 1,
            "source": "measured as processor time",
            "machine": f"{platform.machine()} {platform.system()}, {os.cpu_count()} processors",
            "frequency_hz": self.frequency_hz,
            "memory_kept": self.memory_kept,
            "learners": self._of("learn"),
            "forgetting": self._of("forget"),
            "training": self._of("train"),
        }

    def _of(self, action: str) -> dict[str, object]:
        return {fit.learner: fit.as_dict() for fit in self.fits if fit.action == action}

    def save(self, path: str | Path) -> None:
        """Write a profile, or nothing at all."""
        replace_file(path, json.dumps(self.as_dict(), indent=2) + "\n")


Call = Callable[[int], tuple[int, float]]  # of one of the sizes: operations, and the time


class TimedLearner(Protocol):
    """A learner that can be timed on batches of any size."""

    @property
    def name(self) -> str:
        """The learner's name."""

    @property
    def actions(self) -> Sequence[str]:
        """What it can be timed at: to learn, to forget, to train a worker."""

    @property
    def fewest(self) -> int:
        """The smallest batch worth timing, in examples."""

    @property
    def most(self) -> int:
        """The largest batch worth timing, in examples."""

    def call(self, action: str, sizes: Sequence[int]) -> Call:
        """Return what does an action with one of the sizes, and times it."""


def calibrate(
    learners: Sequence[TimedLearner],
    effort: Effort,
    *,
    frequency_hz: float | None = None,
    memory_kept: bool = False,
    progress: Callable[[str], None],
) -> Calibration:
    """Time learners on this machine and return the laws that fit."""
    fits: list[Fit] = []
    for number, learner in enumerate(learners, 1):
        progress(f"{number}/{len(learners)} {learner.name}")
        fits += [fit_law(learner, effort, each, frequency_hz) for each in learner.actions]
    return Calibration(tuple(fits), frequency_hz, memory_kept)


def fit_law(
    learner: TimedLearner, effort: Effort, action: str = "learn", frequency_hz: float | None = None
) -> Fit:
    """Time one action of a learner; fit every other size, and try the law on the rest."""
    sizes = np.geomspace(learner.fewest, learner.most, effort.sizes).round().astype(int).tolist()
    call = learner.call(action, sizes)
    timed = [
        TimedTraining(operations, elapsed_s, frequency_hz=frequency_hz or REFERENCE_HZ)
        for operations, elapsed_s in _medians(call, len(sizes), effort.repeats)
    ]
    law = identified(timed[::2])
    errors = relative_errors(law, timed)
    points = tuple(
        Point(size, int(one.operations), one.elapsed_s, error, held_out=bool(place % 2))
        for place, (size, one, error) in enumerate(zip(sizes, timed, errors, strict=True))
    )
    return Fit(learner.name, law, points, action)


def _medians(call: Call, sizes: int, repeats: int) -> list[tuple[int, float]]:
    """Return operations and median time of each size.

    All sizes are timed before any is timed again: what else the machine does then falls on all.
    """
    generator = np.random.default_rng(0)
    times: list[list[float]] = [[] for _ in range(sizes)]
    operations = [0] * sizes
    for repeat in range(repeats + 1):
        for place in generator.permutation(sizes).tolist():
            operations[place], elapsed_s = call(place)
            if repeat:  # the first warms caches up
                times[place].append(elapsed_s)
    return [(count, median(each)) for count, each in zip(operations, times, strict=True)]


def clock_hz(cpuinfo: str | Path = "/proc/cpuinfo") -> float | None:
    """Return the clock that the kernel states; None where it states none."""
    try:
        lines = Path(cpuinfo).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    stated = [line.partition(":")[2] for line in lines if line.startswith("cpu MHz")]
    try:
        return max((float(mhz) for mhz in stated), default=0.0) * 1e6 or None
    except ValueError:
        return None
