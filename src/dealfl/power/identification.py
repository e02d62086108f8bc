"""System identification: the law of training time that fits measured times best."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.power.training_time import (
    REFERENCE_HZ,
    TrainingTime,
    require_above_zero,
    require_number,
)

__all__ = ["TimedTraining", "identify", "relative_errors"]

Floats = NDArray[np.float64]

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
    _require_different_sizes(trainings)
    operations = np.array([one.operations for one in trainings])
    elapsed_s = np.array([one.elapsed_s for one in trainings])
    settings = np.log([[one.cores, one.frequency_hz / REFERENCE_HZ] for one in trainings])
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
    return [
        time.predicted_s(one.operations, one.cores, one.frequency_hz) / one.elapsed_s - 1.0
        for one in trainings
    ]


def _require_different_sizes(trainings: Sequence[TimedTraining]) -> None:
    sizes = {one.operations for one in trainings}
    if len(sizes) < 2:
        raise BadInput(f"{len(sizes)} different sizes were timed; the fit needs at least 2")


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
        return 0.0, _one(rows[:, 1], targets)
    if both[1] < 0.0:
        return _one(rows[:, 0], targets), 0.0
    return float(both[0]), float(both[1])


def _one(column: Floats, targets: Floats) -> float:
    return float(column @ targets / (column @ column))


def _exponents(
    operations: Floats, working_s: Floats, elapsed_s: Floats, settings: Floats
) -> Floats:
    """Return α and β from log(F/T') = α·log c + β·log f + constant, T' without the overhead."""
    exponents = np.ones(2)
    usable = (working_s > _MOSTLY_OVERHEAD * elapsed_s) & (operations > 0)
    if np.count_nonzero(usable) < 2:
        return exponents
    settings, working_s = settings[usable], working_s[usable]
    varied = np.ptp(settings, axis=0) > 0
    columns = np.column_stack([settings[:, varied], np.ones(len(settings))])
    weights = working_s / elapsed_s[usable]  # noise of the logarithm without the overhead
    targets = np.log(operations[usable] / working_s)
    solution = np.linalg.lstsq(columns * weights[:, None], targets * weights)[0]
    exponents[varied] = solution[:-1]
    return exponents
