"""The cost of a call: operations, counted by a formula, and the CPU cycles they take.

Operations are the same on every machine. Cycles are measured on one machine
(`dealfl devices calibrate`) and converted by the declared factor of a phone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """The cost of a call, computed from sizes; it is the same on every machine.

    Parameters
    ----------
    operations : int
        Multiply-adds, or additions where nothing is multiplied.
    bytes : int
        Bytes of input that are read, plus bytes of statistics that are read and written.
    """

    operations: int
    bytes: int

    def __add__(self, other: Work) -> Work:
        return Work(self.operations + other.operations, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Cycles:
    """CPU cycles of one call: a part per operation and a part per call.

    Parameters
    ----------
    per_operation : float
        Cycles per operation.
    per_call : float, default 0.0
        Cycles of a call, independent of its operations.

    Examples
    --------
    >>> Cycles(per_operation=2.0, per_call=1000.0).of(500)
    2000.0
    """

    per_operation: float
    per_call: float = 0.0

    def share_of_operations(self, operations: float) -> float:
        """Return the fraction of the cycles that operations take; the rest is per-call overhead.

        Parameters
        ----------
        operations : float
            Operations of the call.

        Returns
        -------
        float
            A number in [0, 1].

        Examples
        --------
        >>> Cycles(per_operation=2.0, per_call=1000.0).share_of_operations(500)
        0.5
        """
        cycles = self.of(operations)
        return self.per_operation * operations / cycles if cycles else 0.0

    def of(self, operations: float) -> float:
        """Return the cycles of a call.

        Parameters
        ----------
        operations : float
            Operations of the call.

        Returns
        -------
        float
            Cycles; 0 if there are no operations.
        """
        return self.per_operation * operations + self.per_call if operations else 0.0


@dataclass(frozen=True, slots=True)
class LearnerCycles:
    """CPU cycles of learning, forgetting and training of one learner.

    Forgetting has its own figures because a model that serves predictions also updates its indexes.
    The figures of the built-in learners are medians of 31 measurements on one core of an AMD EPYC
    at 2.60 GHz, with freed memory kept. Median errors on sizes that were not fitted are 1 to 11 %,
    except 24 % for forgetting histories, which is not affine. `update` and
    `review` are `train` times a ratio that was measured with both in turn.

    Parameters
    ----------
    learn : Cycles
        Cycles of `learn` on a model.
    forget : Cycles
        Cycles of `forget` on a model.
    train : Cycles, optional
        Cycles of computing statistics without a model; by default those of `learn`.
    update : Cycles, optional
        Cycles of changing a live model by stored records; by default those of `train`.
    review : Cycles, optional
        Cycles of scoring a live model that has just changed; by default those of `update`.
    """

    learn: Cycles
    forget: Cycles
    train: Cycles | None = None
    update: Cycles | None = None
    review: Cycles | None = None

    @property
    def of_worker(self) -> LearnerCycles:
        """The cycles of a worker; statistics to add and to subtract cost the same."""
        train = self.train or self.learn
        return LearnerCycles(train, train, train, self.update, self.review)

    @property
    def of_resident(self) -> LearnerCycles:
        """The cycles of a worker that keeps a live model and changes it in place."""
        update = self.update or self.of_worker.learn
        return LearnerCycles(update, update, update, update, self.review or update)
