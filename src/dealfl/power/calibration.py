"""Calibration: learners timed on this machine, and laws that are tested on held-out sizes."""

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

import numpy as np

from dealfl.power.identification import TimedTraining, identify, relative_errors
from dealfl.power.training_time import REFERENCE_HZ, TrainingTime
from dealfl.storage import replace_file

__all__ = [
    "FULL", "QUICK", "TARGET_ERROR", "Calibration", "Effort", "Fit", "Point", "TimedLearner",
    "calibrate", "clock_hz", "fit_law",
]  # fmt: skip

TARGET_ERROR = 0.10  # median relative error on held-out sizes


@dataclass(frozen=True, slots=True)
class Point:
    """The median time of one batch size, and the error of the fitted law."""

    examples: int
    operations: int
    elapsed_s: float
    relative_error: float
    held_out: bool


@dataclass(frozen=True, slots=True)
class Fit:
    """The fitted law of one learner and action.

    Parameters
    ----------
    learner : str
        Name of the learner.
    time : TrainingTime
        Fitted law.
    points : tuple of Point
        Measured sizes.
    action : {"learn", "forget", "train", "update", "review"}, default "learn"
        What was timed; "train" is a worker's whole training, "update" that of a live model, and
        "review" a score of a live model that has just changed.
    """

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
        """Return the law, its errors and its points, for JSON."""
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
    """The laws of all learners on one machine, on one core.

    Parameters
    ----------
    fits : tuple of Fit
        Laws by learner and action.
    frequency_hz : float or None
        Clock frequency that the kernel reports, in hertz; None if unknown.
    memory_kept : bool
        Whether the allocator was set to keep freed memory.
    """

    fits: tuple[Fit, ...]
    frequency_hz: float | None
    memory_kept: bool

    @property
    def holds(self) -> bool:
        """Whether the time to learn meets `TARGET_ERROR` for every learner.

        Forgetting has no target: repairing an index is not affine in the operations. Its points
        show the errors.
        """
        return all(fit.median_error <= TARGET_ERROR for fit in self.fits if fit.action == "learn")

    def as_dict(self) -> dict[str, object]:
        """Return the calibration, for JSON."""
        return {
            "version": 1,
            "source": "measured as processor time",
            "machine": f"{platform.machine()} {platform.system()}, {os.cpu_count()} processors",
            "frequency_hz": self.frequency_hz,
            "memory_kept": self.memory_kept,
            "learners": self._of("learn"),
            "forgetting": self._of("forget"),
            "training": self._of("train"),
            "updating": self._of("update"),
            "reviewing": self._of("review"),
        }

    def _of(self, action: str) -> dict[str, object]:
        return {fit.learner: fit.as_dict() for fit in self.fits if fit.action == action}

    def save(self, path: str | Path) -> None:
        """Write the calibration as JSON, atomically.

        Parameters
        ----------
        path : str or Path
            File to write or replace.
        """
        replace_file(path, json.dumps(self.as_dict(), indent=2) + "\n", 0o666)


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort of a calibration."""

    sizes: int
    repeats: int


FULL = Effort(sizes=17, repeats=31)
QUICK = Effort(sizes=11, repeats=9)


Call = Callable[[int], tuple[int, float]]  # index of a size -> operations, seconds


class TimedLearner(Protocol):
    """A learner that can be timed on batches of different sizes."""

    @property
    def name(self) -> str:
        """The learner's name."""

    @property
    def actions(self) -> Sequence[str]:
        """The actions that can be timed: "learn", "forget", "train", "update", "review"."""

    @property
    def fewest(self) -> int:
        """The smallest batch worth timing, in examples."""

    @property
    def most(self) -> int:
        """The largest batch worth timing, in examples."""

    def call(self, action: str, sizes: Sequence[int]) -> Call:
        """Return a function that performs an action and times it."""


def calibrate(
    learners: Sequence[TimedLearner],
    effort: Effort,
    *,
    frequency_hz: float | None = None,
    memory_kept: bool = False,
    progress: Callable[[str], None],
) -> Calibration:
    """Time learners on this machine and fit their laws.

    Parameters
    ----------
    learners : sequence of TimedLearner
        Learners to time.
    effort : Effort
        Number of sizes and repeats.
    frequency_hz : float, optional
        Clock frequency, in hertz; `REFERENCE_HZ` is assumed if unknown.
    memory_kept : bool, default False
        Whether the allocator keeps freed memory; recorded only.
    progress : callable
        Receives one line of text for each learner.

    Returns
    -------
    Calibration
        The fitted laws.
    """
    fits: list[Fit] = []
    for number, learner in enumerate(learners, 1):
        progress(f"{number}/{len(learners)} {learner.name}")
        fits += [fit_law(learner, effort, each, frequency_hz) for each in learner.actions]
    return Calibration(tuple(fits), frequency_hz, memory_kept)


def fit_law(
    learner: TimedLearner, effort: Effort, action: str = "learn", frequency_hz: float | None = None
) -> Fit:
    """Time one action of a learner; fit every other size and test the law on the rest."""
    sizes = np.geomspace(learner.fewest, learner.most, effort.sizes).round().astype(int).tolist()
    call = learner.call(action, sizes)
    timed = [
        TimedTraining(operations, elapsed_s, frequency_hz=frequency_hz or REFERENCE_HZ)
        for operations, elapsed_s in _medians(call, len(sizes), effort.repeats)
    ]
    law = identify(timed[::2])
    errors = relative_errors(law, timed)
    points = tuple(
        Point(size, int(one.operations), one.elapsed_s, error, held_out=bool(place % 2))
        for place, (size, one, error) in enumerate(zip(sizes, timed, errors, strict=True))
    )
    return Fit(learner.name, law, points, action)


def _medians(call: Call, sizes: int, repeats: int) -> list[tuple[int, float]]:
    """Return operations and median time of each size.

    Each repeat times all sizes in random order, so other load on the machine affects all alike.
    """
    generator = np.random.default_rng(0)
    times: list[list[float]] = [[] for _ in range(sizes)]
    operations = [0] * sizes
    for repeat in range(repeats + 1):
        for place in generator.permutation(sizes).tolist():
            operations[place], elapsed_s = call(place)
            if repeat:  # the first repeat warms the caches
                times[place].append(elapsed_s)
    return [(count, median(each)) for count, each in zip(operations, times, strict=True)]


def clock_hz(cpuinfo: str | Path = "/proc/cpuinfo") -> float | None:
    """Return the clock frequency that the kernel reports.

    Parameters
    ----------
    cpuinfo : str or Path, default "/proc/cpuinfo"
        File to read.

    Returns
    -------
    float or None
        Highest frequency of all processors, in hertz; None if not reported.
    """
    try:
        lines = Path(cpuinfo).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    stated = [line.partition(":")[2] for line in lines if line.startswith("cpu MHz")]
    try:
        return max((float(mhz) for mhz in stated), default=0.0) * 1e6 or None
    except ValueError:
        return None
