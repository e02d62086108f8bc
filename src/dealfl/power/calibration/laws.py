"""The laws of training time that a calibration finds, and their errors."""

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from dealfl.atomic_files import replace_file
from dealfl.power.training_time import TrainingTime

__all__ = ["TARGET_ERROR", "Calibration", "Fit", "Point"]

TARGET_ERROR = 0.10  # median relative error on held-out sizes


@dataclass(frozen=True, slots=True)
class Point:
    """The median time of one batch size, and the error of the fitted law.

    Parameters
    ----------
    examples : int
        Batch size, in examples.
    operations : int
        Number of operations.
    elapsed_s : float
        Median time, in seconds.
    relative_error : float
        Predicted/measured − 1.
    held_out : bool
        Whether the size was held out of the fit.
    """

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
    action : {"learn", "forget", "train"}, default "learn"
        What was timed; "train" is a worker's whole training.
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
        """Return the law, its errors and its points, for JSON.

        Returns
        -------
        dict
            JSON values by name.
        """
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
        """Return the calibration, for JSON.

        Returns
        -------
        dict
            JSON values by name.
        """
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
        """Write the calibration as JSON, atomically.

        Parameters
        ----------
        path : str or Path
            File to write or replace.
        """
        replace_file(path, json.dumps(self.as_dict(), indent=2) + "\n")
