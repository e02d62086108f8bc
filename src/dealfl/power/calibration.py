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
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.exact import prefer_loops
from dealfl.power.training_time import (
    REFERENCE_HZ,
    TrainingTime,
    require_above_zero,
    require_number,
)
from dealfl.storage import replace_file

Floats = NDArray[np.float64]

TARGET_ERROR = 0.10  # median relative error on held-out sizes
_ROUNDS = 100
_REWEIGHTED = 30
_SETTLED = 1e-9
_ORDINARY = 0.03  # errors up to this count by their square
_MIN_SHARE = 0.1  # of the measured time: bounds the weights
_MOSTLY_OVERHEAD = 0.2  # trainings below this share of working time are not used for α and β


@dataclass(frozen=True, slots=True)
class TimedTraining:
    """One measured training."""

    operations: float
    elapsed_s: float
    cores: float = 1.0
    frequency_hz: float = REFERENCE_HZ

    def __post_init__(self) -> None:
        """Reject impossible measurements."""
        require_number("operations", self.operations, minimum=0.0)
        for name in ("elapsed_s", "cores", "frequency_hz"):
            require_above_zero(name, getattr(self, name))


def identify(trainings: Sequence[TimedTraining]) -> TrainingTime:
    """Fit the law of training time: α, β log-linearly; A, B by robust relative least squares.

    Examples
    --------
    >>> fitted = identify([TimedTraining(1e6, 0.003), TimedTraining(3e6, 0.005)])
    >>> round(fitted.seconds_per_operation * 1e9, 6), round(fitted.overhead_s, 6)
    (1.0, 0.002)
    """
    sizes = {training.operations for training in trainings}
    if len(sizes) < 2:
        raise BadInput(f"{len(sizes)} different sizes were timed; the fit needs at least 2")
    operations = np.array([training.operations for training in trainings])
    elapsed_s = np.array([training.elapsed_s for training in trainings])
    cores = [training.cores for training in trainings]
    speeds = [training.frequency_hz / REFERENCE_HZ for training in trainings]
    settings = np.log(np.column_stack([cores, speeds]))
    exponents = np.ones(2)
    for _ in range(_ROUNDS):
        slope, overhead_s = _affine(operations / np.exp(settings @ exponents), elapsed_s)
        better = _exponents(operations, elapsed_s - overhead_s, elapsed_s, settings)
        moved = float(np.max(np.abs(better - exponents)))
        exponents = better
        if moved < _SETTLED:
            break
    slope, overhead_s = _affine(operations / np.exp(settings @ exponents), elapsed_s)
    return TrainingTime(slope, overhead_s, float(exponents[0]), float(exponents[1]))


def relative_errors(time: TrainingTime, trainings: Sequence[TimedTraining]) -> list[float]:
    """Return predicted/measured − 1 for each training.

    Examples
    --------
    >>> relative_errors(TrainingTime(1e-9, 0.0), [TimedTraining(1e9, elapsed_s=2.0)])
    [-0.5]
    """
    predicted_s = (time.predicted_s(t.operations, t.cores, t.frequency_hz) for t in trainings)
    return [s / t.elapsed_s - 1.0 for s, t in zip(predicted_s, trainings, strict=True)]


def _affine(scaled: Floats, elapsed_s: Floats) -> tuple[float, float]:
    """Return the non-negative slope and offset with the smallest relative errors.

    Errors count by their absolute value, not by their square, so one outlier does not dominate.
    """
    columns = np.stack([scaled, np.ones_like(scaled)], axis=1) / elapsed_s[:, None]
    weights = np.ones(len(scaled))
    slope = overhead_s = 0.0
    for _ in range(_REWEIGHTED):
        slope, overhead_s = _non_negative(columns * weights[:, None], weights)
        # relative to the expected time; relative to the measured time, short ones would dominate
        expected = columns @ np.array([slope, overhead_s])
        errors = np.abs(np.log(np.maximum(expected, _MIN_SHARE)))
        weights = np.sqrt(_ORDINARY / np.maximum(errors, _ORDINARY))
        weights /= np.maximum(expected, _MIN_SHARE)
    return slope, overhead_s


def _non_negative(rows: Floats, targets: Floats) -> tuple[float, float]:
    sizes = np.linalg.norm(rows, axis=0)
    both = np.linalg.lstsq(rows / sizes, targets)[0] / sizes
    if both[0] < 0.0:
        return 0.0, _fitted(rows[:, 1], targets)
    if both[1] < 0.0:
        return _fitted(rows[:, 0], targets), 0.0
    return float(both[0]), float(both[1])


def _fitted(column: Floats, targets: Floats) -> float:
    return float(column @ targets / (column @ column))


def _exponents(
    operations: Floats, working_s: Floats, elapsed_s: Floats, settings: Floats
) -> Floats:
    """Return α and β from log(F/T') = α·log c + β·log f + constant, T' without the overhead."""
    exponents = np.ones(2)
    usable = (working_s > _MOSTLY_OVERHEAD * elapsed_s) & (operations > 0)
    if np.count_nonzero(usable) < 2:
        return exponents
    settings = settings[usable]
    working_s = working_s[usable]
    varied = np.ptp(settings, axis=0) > 0
    columns = np.column_stack([settings[:, varied], np.ones(len(settings))])
    weights = working_s / elapsed_s[usable]  # noise of the logarithm without the overhead
    targets = np.log(operations[usable] / working_s)
    solution = np.linalg.lstsq(columns * weights[:, None], targets * weights)[0]
    exponents[varied] = solution[:-1]
    return exponents


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
    """The fitted law of one learner and action."""

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
    """The laws of all learners on one machine, on one core."""

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
        """Write the calibration as JSON, atomically."""
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
    """Time learners on this machine, with compiled loops where they are installed, and fit laws."""
    prefer_loops()
    fits: list[Fit] = []
    for number, learner in enumerate(learners, 1):
        progress(f"{number}/{len(learners)} {learner.name}")
        fits += [fit_law(learner, effort, action, frequency_hz) for action in learner.actions]
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
        Point(size, int(each.operations), each.elapsed_s, error, held_out=bool(index % 2))
        for index, (size, each, error) in enumerate(zip(sizes, timed, errors, strict=True))
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
        for index in generator.permutation(sizes).tolist():
            operations[index], elapsed_s = call(index)
            if repeat:  # the first repeat warms the caches
                times[index].append(elapsed_s)
    return [(count, median(each)) for count, each in zip(operations, times, strict=True)]


def clock_hz(cpuinfo: str | Path = "/proc/cpuinfo") -> float | None:
    """Return the clock frequency that the kernel reports."""
    try:
        lines = Path(cpuinfo).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    stated = [line.partition(":")[2] for line in lines if line.startswith("cpu MHz")]
    try:
        return max((float(mhz) for mhz in stated), default=0.0) * 1e6 or None
    except ValueError:
        return None
