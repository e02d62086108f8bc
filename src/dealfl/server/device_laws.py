"""What is known of one kind of device: a law of its time, a law of its energy.

T = A·F + B, where F counts cycles of the machine on which learners were measured, for forgetting
takes other than learning. A report counts by the logarithm of its error and no further than a
factor of two, so that one liar among ten moves little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dealfl.errors import BadInput
from dealfl.power import (
    CYCLES,
    PHONES,
    LearnerCycles,
    PhoneSpending,
    Spent,
    TimeEstimate,
    Training,
    TrainingTime,
)

__all__ = ["Kind", "first", "learned", "mean", "present", "profiled"]

_NEW = 0.2  # the weight of a new report in a running mean
_MANY_OPERATIONS = 10**9
_WILDEST = 2.0  # times what was expected; more is not believed at once


@dataclass(frozen=True, slots=True)
class Kind:
    """The laws of one kind of device; 0 operations for an example: nothing is known yet."""

    time: TimeEstimate
    energy: TimeEstimate | None  # joules for seconds
    operations_per_example: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Whether its numbers can be; anything may stand in a damaged file."""
        laws = (self.time, self.energy or self.time)
        return self.operations_per_example >= 0.0 and all(law.is_sound for law in laws)


def profiled(device: str, learner: str) -> Kind | None:
    """Return what the profile of a phone says of a learner that was measured."""
    if device not in PHONES or learner not in CYCLES:
        return None
    cycles: LearnerCycles = CYCLES[learner].of_worker
    spending = PhoneSpending(PHONES[device], cycles)
    few, many = (spending.of(Training(learned_operations=count)) for count in (1, _MANY_OPERATIONS))
    apart = cycles.learn.per_operation * (_MANY_OPERATIONS - 1)
    time = _line(few, many, apart, lambda spent: spent.compute.elapsed_s)
    energy = _line(few, many, apart, lambda spent: spent.whole.total_j)
    return Kind(TimeEstimate.prior(time), TimeEstimate.prior(energy))


def first(cycles: float, elapsed_s: float) -> Kind:
    """Return what the first report of an unknown device says."""
    return Kind(TimeEstimate.prior(TrainingTime(elapsed_s / cycles, 0.0)), None)


def learned(kind: Kind, cycles: float, elapsed_s: float, energy_j: float) -> Kind:
    """Return what is known after a report; no energy means that it is not known there."""
    energy = kind.energy
    if energy_j > 0.0:
        start = energy or TimeEstimate.prior(TrainingTime(energy_j / cycles, 0.0))
        energy = _improved(start, cycles, energy_j)
    return replace(kind, time=_improved(kind.time, cycles, elapsed_s), energy=energy)


def present(estimate: TimeEstimate) -> TrainingTime:
    """Return the law, and on top of it half of what it missed lately: it learned from that, too."""
    missed, law = math.exp(0.5 * estimate.persistent_error), estimate.time
    return TrainingTime(missed * law.seconds_per_operation, missed * law.overhead_s)


def mean(before: float, new: float, weight: float = _NEW, at_least: float = 0.0) -> float:
    """Return a running mean that takes no figure for more than twice itself and `at_least`.

    >>> mean(10.0, 11.0), mean(10.0, 1e18), mean(0.0, 7.0)
    (10.2, 12.0, 7.0)
    """
    if not before and not at_least:
        return new
    return before + weight * (min(new, _WILDEST * before + at_least) - before)


def _improved(estimate: TimeEstimate, cycles: float, figure: float) -> TimeEstimate:
    try:
        if estimate.observations == 0:
            estimate = TimeEstimate.prior(_through(estimate.time, cycles, figure))
        most = _WILDEST * estimate.predicted_s(cycles)
        return estimate.observed(cycles, min(figure, most) if most else figure)
    except (BadInput, ArithmeticError):
        return estimate  # figures so far apart that they can not be computed with


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
    """Return the line through two trainings that are so many cycles apart."""
    slope = (figure(many) - figure(few)) / cycles
    return TrainingTime(slope, figure(few))
