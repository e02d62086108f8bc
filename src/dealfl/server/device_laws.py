"""Laws of time and energy of one kind of device, as functions of the work.

T = A·F + B, where F counts cycles of the reference machine on which the learners were measured,
because forgetting costs a different number of cycles than learning. For the time, the cycles of
long work count more if the phone's clock runs slower for it. A report changes a law by the
logarithm of its error and by at most a factor of two, so that one wrong report in ten has little
effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from dealfl.errors import BadInput
from dealfl.exact import LearnerCycles
from dealfl.power import PHONES, PhoneSpending, Spent, TimeEstimate, Training, TrainingTime

__all__ = [
    "DeviceLaws",
    "Pace",
    "current_law",
    "improve",
    "laws_from_profile",
    "laws_from_report",
    "pace_from_profile",
    "running_mean",
]

_NEW = 0.2  # weight of a new report in a running mean
_MANY_OPERATIONS = 10**9
_FEW_OPERATIONS = 1
_HALVINGS = 20
_NO_SLOWDOWN = 1.01
_MAX_FACTOR = 2.0  # of the expected value; a larger one is capped


@dataclass(frozen=True, slots=True)
class DeviceLaws:
    """Laws of time and energy; 0 operations per example means that nothing is known yet."""

    time: TimeEstimate
    energy: TimeEstimate | None  # in joules instead of seconds
    operations_per_example: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Whether all values are in range; a damaged file may contain any value."""
        laws = (self.time, self.energy or self.time)
        return self.operations_per_example >= 0.0 and all(law.is_sound for law in laws)


@dataclass(frozen=True, slots=True)
class Pace:
    """A clock that runs slower if the work is long, as control does when the radio's tail ends."""

    max_cycles: float = math.inf  # of the work at full speed
    slowdown: float = 1.0  # of longer work

    def of(self, cycles: float) -> float:
        """Return the cycles at full speed that take as long as the work."""
        return cycles if cycles <= self.max_cycles else cycles * self.slowdown


@lru_cache(maxsize=256)  # the names of devices come from workers
def pace_from_profile(device: str, cycles: LearnerCycles | None) -> Pace:
    """Return the pace of a phone with a profile whose clock is under DEAL's control."""
    if device not in PHONES or cycles is None:
        return Pace()

    def operation_s(exponent: float) -> float:
        operations = int(10**exponent)
        return _spent(device, cycles, operations).compute.elapsed_s / cycles.learn.of(operations)

    low, high = math.log10(_FEW_OPERATIONS), math.log10(_MANY_OPERATIONS)
    slowdown = operation_s(high) / operation_s(low)
    middle_s = operation_s(low) * math.sqrt(slowdown)
    for _ in range(_HALVINGS if slowdown > _NO_SLOWDOWN else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if operation_s(middle) > middle_s else (middle, high)
    return Pace(cycles.learn.per_operation * 10**high, slowdown)


def laws_from_profile(device: str, cycles: LearnerCycles | None) -> DeviceLaws | None:
    """Return the laws of a phone with a profile, for a learner with measured cycles."""
    if device not in PHONES or cycles is None:
        return None
    few, many = (_spent(device, cycles, count) for count in (_FEW_OPERATIONS, _MANY_OPERATIONS))
    apart = cycles.learn.per_operation * (_MANY_OPERATIONS - _FEW_OPERATIONS)
    paced = pace_from_profile(device, cycles).of(apart)
    time = _line(few, many, paced, lambda spent: spent.compute.elapsed_s)
    energy = _line(few, many, apart, lambda spent: spent.whole.total_j)
    return DeviceLaws(TimeEstimate.prior(time), TimeEstimate.prior(energy))


def _spent(device: str, cycles: LearnerCycles, operations: int) -> Spent:
    return PhoneSpending(PHONES[device], cycles).of(Training(learned_operations=operations))


def laws_from_report(cycles: float, elapsed_s: float) -> DeviceLaws:
    """Return the laws of an unknown device after its first report."""
    return DeviceLaws(TimeEstimate.prior(TrainingTime(elapsed_s / cycles, 0.0)), None)


def improve(
    laws: DeviceLaws, cycles: float, paced: float, elapsed_s: float, energy_j: float
) -> DeviceLaws:
    """Return the laws after a report; an energy of 0 means that the device cannot measure it."""
    energy = laws.energy
    if energy_j > 0.0:
        start = energy or TimeEstimate.prior(TrainingTime(energy_j / cycles, 0.0))
        energy = _improved(start, cycles, energy_j)
    return replace(laws, time=_improved(laws.time, paced, elapsed_s), energy=energy)


def current_law(estimate: TimeEstimate) -> TrainingTime:
    """Return a law corrected by half of its recent error; it learned from that error too."""
    missed, law = math.exp(0.5 * estimate.persistent_error), estimate.time
    return TrainingTime(missed * law.seconds_per_operation, missed * law.overhead_s)


def running_mean(before: float, new: float, weight: float = _NEW, at_least: float = 0.0) -> float:
    """Return a running mean in which no value counts more than twice the mean plus `at_least`.

    Examples
    --------
    >>> running_mean(10.0, 11.0), running_mean(10.0, 1e18), running_mean(0.0, 7.0)
    (10.2, 12.0, 7.0)
    """
    if not before and not at_least:
        return new
    return before + weight * (min(new, _MAX_FACTOR * before + at_least) - before)


def _improved(estimate: TimeEstimate, cycles: float, figure: float) -> TimeEstimate:
    try:
        if estimate.observations == 0:
            estimate = TimeEstimate.prior(_through(estimate.time, cycles, figure))
        most = _MAX_FACTOR * estimate.time.predicted_s(cycles)
        return estimate.with_measurement(cycles, min(figure, most) if most else figure)
    except (BadInput, ArithmeticError):
        return estimate  # values too far apart to compute with


def _through(line: TrainingTime, cycles: float, figure: float) -> TrainingTime:
    """Return a profile's line after the first report.

    A profile does not know the message size of this job or the overhead of a call on this device,
    so the excess of a report is overhead.
    """
    working = line.seconds_per_operation * cycles
    if figure > working:
        return replace(line, overhead_s=figure - working)
    return replace(line, seconds_per_operation=figure / cycles, overhead_s=0.0)


def _line(few: Spent, many: Spent, cycles: float, figure: Callable[[Spent], float]) -> TrainingTime:
    """Return the line through two trainings that are `cycles` apart."""
    slope = (figure(many) - figure(few)) / cycles
    return TrainingTime(slope, figure(few))
