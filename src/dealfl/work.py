"""What a call costs: operations counted by a formula, and the cycles that they take.

Operations are the same on every machine. Cycles are measured on one machine
(`dealfl devices calibrate`); the declared factor of a phone carries them over.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Cycles", "LearnerCycles", "Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """What a call costs, from a formula over sizes: it is the same on every machine.

    `operations` are multiply-adds (or adds, where nothing is multiplied); `bytes` are those of the
    input read and of the statistics read and written.
    """

    operations: int
    bytes: int

    def __add__(self, other: Work) -> Work:
        return Work(self.operations + other.operations, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles of one call: some for each operation, and some for the call itself.

    >>> Cycles(per_operation=2.0, per_call=1000.0).of(500)
    2000.0
    """

    per_operation: float
    per_call: float = 0.0

    def share_of_operations(self, operations: float) -> float:
        """Return which part of the cycles is for operations; the rest is for the call.

        >>> Cycles(per_operation=2.0, per_call=1000.0).share_of_operations(500)
        0.5
        """
        cycles = self.of(operations)
        return self.per_operation * operations / cycles if cycles else 0.0

    def of(self, operations: float) -> float:
        """Return the cycles of a call with that many operations; none take none."""
        return self.per_operation * operations + self.per_call if operations else 0.0


@dataclass(frozen=True, slots=True)
class LearnerCycles:
    """What learning and forgetting take a model, and training a worker without one in memory.

    Forgetting has figures of its own: a model that answers predictions must also mend its indexes.
    The figures of the built-in learners are medians of 31, measured on one core of an AMD EPYC at
    the 2.60 GHz its kernel states, with freed memory kept. Median errors on sizes that were not
    fitted are 1 to 11 %, but 24 % for forgetting histories, which is not affine.
    """

    learn: Cycles
    forget: Cycles
    train: Cycles | None = None

    @property
    def of_worker(self) -> LearnerCycles:
        """What a worker takes: it computes what to take back just as what to add."""
        train = self.train or self.learn
        return LearnerCycles(train, train, train)
