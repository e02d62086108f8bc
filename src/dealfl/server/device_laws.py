"""The laws of one kind of device: how its time and its energy depend on the work.

T = A·F + B, where F counts cycles of the machine on which learners were measured, for forgetting
takes other than learning. A report counts by the logarithm of its error and no further than a
factor of two, so that one liar among ten moves little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dealfl.errors import BadInput
from dealfl.power import PHONES, PhoneSpending, Spent, TimeEstimate, Training, TrainingTime
from dealfl.work import LearnerCycles

__all__ = [
    "DeviceLaws",
    "current_law",
    "improve",
    "laws_from_profile",
    "laws_from_report",
    "running_mean",
]

_NEW = 0.2  # the weight of a new report in a running mean
_MANY_OPERATIONS = 10**9
_MAX_FACTOR = 2.0  # times what was expected; more is not believed at once


@dataclass(frozen=True, slots=True)
class DeviceLaws:
    """Laws of time and energy; 0 operations for an example: nothing is known yet."""

    time: TimeEstimate
    energy: TimeEstimate | None  # joules for seconds
    operations_per_example: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Whether its numbers can be; anything may stand in a damaged file."""
        laws = (self.time, self.energy or self.time)
        return self.operations_per_example >= 0.0 and all(law.is_sound for law in laws)


def laws_from_profile(device: str, cycles: LearnerCycles | None) -> DeviceLaws | None:
    """Return the laws of a known phone for a learner whose cycles were measured."""
    if device not in PHONES or cycles is None:
        return None
    spending = PhoneSpending(PHONES[device], cycles)
    few, many = (spending.of(Training(learned_operations=count)) for count in (1, _MANY_OPERATIONS))
    apart = cycles.learn.per_operation * (_MANY_OPERATIONS - 1)
    time = _line(few, many, apart, lambda spent: spent.compute.elapsed_s)
    energy = _line(few, many, apart, lambda spent: spent.whole.total_j)
    return DeviceLaws(TimeEstimate.prior(time), TimeEstimate.prior(energy))


def laws_from_report(cycles: float, elapsed_s: float) -> DeviceLaws:
    """Return the laws of an unknown device after its first report."""
    return DeviceLaws(TimeEstimate.prior(TrainingTime(elapsed_s / cycles, 0.0)), None)


def improve(laws: DeviceLaws, cycles: float, elapsed_s: float, energy_j: float) -> DeviceLaws:
    """Return the laws after a report; an energy of 0 means that the device does not know it."""
    energy = laws.energy
    if energy_j > 0.0:
        start = energy or TimeEstimate.prior(TrainingTime(energy_j / cycles, 0.0))
        energy = _improved(start, cycles, energy_j)
    return replace(laws, time=_improved(laws.time, cycles, elapsed_s), energy=energy)


def current_law(estimate: TimeEstimate) -> TrainingTime:
    """Return a law corrected by half of its recent error; it learned from that error, too."""
    missed, law = math.exp(0.5 * estimate.persistent_error), estimate.time
    return TrainingTime(missed * law.seconds_per_operation, missed * law.overhead_s)


def running_mean(before: float, new: float, weight: float = _NEW, at_least: float = 0.0) -> float:
    """Return a running mean that takes no figure for more than twice itself and `at_least`.

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
        most = _MAX_FACTOR * estimate.predicted_s(cycles)
        return estimate.observed(cycles, min(figure, most) if most else figure)
    except (BadInput, ArithmeticError):
        return estimate  # figures too far apart to compute with


def _through(line: TrainingTime, cycles: float, figure: float) -> TrainingTime:
    """Return a profile's line as the first report moves it.

    A profile knows nothing of the bytes of this job, nor of what else a call takes here: what a
    report has more is overhead.
    """
    working = line.seconds_per_operation * cycles
    if figure > working:
        return replace(line, overhead_s=figure - working)
    return replace(line, seconds_per_operation=figure / cycles, overhead_s=0.0)


def _line(few: Spent, many: Spent, cycles: float, figure: Callable[[Spent], float]) -> TrainingTime:
    """Return the line through two trainings, `cycles` apart."""
    slope = (figure(many) - figure(few)) / cycles
    return TrainingTime(slope, figure(few))
