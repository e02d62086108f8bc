"""Timing of learners on this machine; laws are fitted and tested on held-out sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

import numpy as np

from dealfl.power.calibration.identification import TimedTraining, identify, relative_errors
from dealfl.power.calibration.laws import Calibration, Fit, Point
from dealfl.power.training_time import REFERENCE_HZ

__all__ = ["FULL", "QUICK", "Effort", "TimedLearner", "calibrate", "clock_hz", "fit_law"]


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort of a calibration.

    Parameters
    ----------
    sizes : int
        Number of batch sizes; every other one is held out.
    repeats : int
        Number of measurements of each size.
    """

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
        """The actions that can be timed: "learn", "forget", "train"."""

    @property
    def fewest(self) -> int:
        """The smallest batch worth timing, in examples."""

    @property
    def most(self) -> int:
        """The largest batch worth timing, in examples."""

    def call(self, action: str, sizes: Sequence[int]) -> Call:
        """Return a function that performs an action and times it.

        Parameters
        ----------
        action : str
            One of `actions`.
        sizes : sequence of int
            Batch sizes, in examples.

        Returns
        -------
        callable
            Function from the index of a size to its operations and its time in seconds.
        """


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
    """Time one action of a learner; fit every other size and test the law on the rest.

    Parameters
    ----------
    learner : TimedLearner
        Learner to time.
    effort : Effort
        Number of sizes and repeats.
    action : str, default "learn"
        One of the learner's actions.
    frequency_hz : float, optional
        Clock frequency, in hertz; `REFERENCE_HZ` is assumed if unknown.

    Returns
    -------
    Fit
        The law and its errors.
    """
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
