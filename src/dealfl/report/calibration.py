"""How long the real learners take on this machine: timed, fitted, and tested on other sizes.

Learning is timed on a model that holds little, forgetting on one that holds as much as is ever
timed: what a model holds is what it must look through to forget. A worker holds no model while it
trains: it reads records and computes what they add or take back, which is timed as well.
"""

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from dealfl.atomic_files import replace_file
from dealfl.learners import Histories, Rows, statistics_of
from dealfl.power import REFERENCE_HZ, TrainingTime
from dealfl.power.identification import TimedTraining, identified, relative_errors
from dealfl.report.subjects import SUBJECTS, Batch, Subject
from dealfl.worker import Record

__all__ = [
    "ASKED_ERROR", "FULL", "QUICK", "SUBJECTS", "Calibration", "Effort", "Fit", "Point", "Subject",
    "calibrated", "clock_hz", "fitted",
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


def calibrated(
    effort: Effort,
    *,
    frequency_hz: float | None = None,
    memory_kept: bool = False,
    progress: Callable[[str], None],
) -> Calibration:
    """Time every learner of the paper on this machine and return what was found."""
    fits: list[Fit] = []
    for number, subject in enumerate(SUBJECTS, 1):
        progress(f"{number}/{len(SUBJECTS)} {subject.learner}")
        fits += [
            fitted(subject, effort, action=action, frequency_hz=frequency_hz) for action in _CALLS
        ]
    return Calibration(tuple(fits), frequency_hz, memory_kept)


def fitted(
    subject: Subject,
    effort: Effort,
    *,
    action: str = "learn",
    frequency_hz: float | None = None,
    clock: Callable[[], float] = time.process_time,
) -> Fit:
    """Time a learner as it learns or forgets, or a worker; fit every other size, try the rest.

    The clock counts the processor's time: what else runs here stretches long trainings only.
    """
    clock_hz = frequency_hz or REFERENCE_HZ
    sizes = np.geomspace(subject.fewest, subject.most, effort.sizes).round().astype(int).tolist()
    call = _CALLS[action](subject, sizes, clock)
    timed = [
        TimedTraining(operations, elapsed_s, frequency_hz=clock_hz)
        for operations, elapsed_s in _medians(call, len(sizes), effort.repeats)
    ]
    law = identified(timed[::2])
    errors = relative_errors(law, timed)
    points = tuple(
        Point(size, int(one.operations), one.elapsed_s, error, held_out=bool(place % 2))
        for place, (size, one, error) in enumerate(zip(sizes, timed, errors, strict=True))
    )
    return Fit(subject.learner, law, points, action)


Call = Callable[[int], tuple[int, float]]  # of one of the sizes: operations, and the time


def _learning(subject: Subject, sizes: Sequence[int], clock: Callable[[], float]) -> Call:
    generator = np.random.default_rng(0)
    batches = [subject.batch(generator, size) for size in sizes]

    def learn(place: int) -> tuple[int, float]:
        model = subject.made()
        model.learn(*batches[0])  # a worker's model is in memory before it trains
        start = clock()
        model.learn(*batches[place])
        return model.last_work.operations, clock() - start

    return learn


def _forgetting(subject: Subject, sizes: Sequence[int], clock: Callable[[], float]) -> Call:
    held = subject.batch(np.random.default_rng(0), sizes[-1])
    model = subject.made()
    model.learn(*held)

    def forget(place: int) -> tuple[int, float]:
        batch = tuple(part[: sizes[place]] for part in held)
        start = clock()
        model.forget(*batch)
        elapsed_s = clock() - start
        operations = model.last_work.operations
        model.learn(*batch)
        return operations, elapsed_s

    return forget


def _training(subject: Subject, sizes: Sequence[int], clock: Callable[[], float]) -> Call:
    generator = np.random.default_rng(0)
    batches = [_records(subject.batch(generator, size)) for size in sizes]

    def train(place: int) -> tuple[int, float]:
        start = clock()
        _, work = statistics_of(subject.made, batches[place])
        return work.operations, clock() - start

    return train


def _records(batch: Batch) -> list[Record]:
    """Return a batch as a worker's journal has it; each history is of another owner."""
    if len(batch) == 1:
        histories = batch[0].tocoo()
        pairs = zip(histories.row.tolist(), histories.col.tolist(), strict=True)
        rows = [(b"%d" % owner, Histories.encode(item)) for owner, item in pairs]
    else:
        rows = [(b"", Rows.encode(*pair)) for pair in zip(*batch, strict=True)]
    return [Record(number, *row) for number, row in enumerate(rows)]


_CALLS = {"learn": _learning, "forget": _forgetting, "train": _training}


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
