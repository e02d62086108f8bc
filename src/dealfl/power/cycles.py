"""Cycles that learners take, measured on one machine; a phone's declared factor carries them over.

Forgetting has figures of its own: a model that answers predictions must also mend its indexes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from dealfl.errors import BadInput, unknown_name
from dealfl.plugins import plugged_in, plugins
from dealfl.power.tables import Table, read_table
from dealfl.power.training_time import REFERENCE_HZ, TrainingTime

__all__ = ["CYCLES", "Cycles", "LearnerCycles", "cycles_of"]

_FILE = Path(__file__).parent / "cycles.toml"
_MOST = 1e12
_OTHERS = "dealfl.learners"


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles of one call: so many for each operation, and so many for the call itself.

    >>> Cycles(per_operation=2.0, per_call=1000.0).of(500)
    2000.0
    """

    per_operation: float
    per_call: float = 0.0

    @classmethod
    def fitted(cls, time: TrainingTime, frequency_hz: float) -> "Cycles":
        """Return the cycles that a law of time says, fitted at a clock."""
        return cls(time.seconds_per_operation * REFERENCE_HZ, time.overhead_s * frequency_hz)

    def share_of_operations(self, operations: float) -> float:
        """Return which part of the cycles is for operations; the rest is for the call.

        >>> Cycles(per_operation=2.0, per_call=1000.0).share_of_operations(500)
        0.5
        """
        cycles = self.of(operations)
        return self.per_operation * operations / cycles if cycles else 0.0

    def of(self, operations: float) -> float:
        """Return the cycles of so many operations; none take none."""
        return self.per_operation * operations + self.per_call if operations else 0.0


@dataclass(frozen=True, slots=True)
class LearnerCycles:
    """What learning and forgetting take a model, and training a worker without one in memory."""

    learn: Cycles
    forget: Cycles
    train: Cycles | None = None

    @property
    def of_worker(self) -> "LearnerCycles":
        """What a worker takes: it computes what to take back just as what to add."""
        train = self.train or self.learn
        return LearnerCycles(train, train, train)


def _read(table: Table) -> LearnerCycles:
    def cycles(key: str) -> Cycles:
        of_key = table.table(key).only("per_operation", "per_call")
        return Cycles(
            of_key.number("per_operation", 0.0, _MOST), of_key.number("per_call", 0.0, _MOST)
        )

    return LearnerCycles(cycles("learn"), cycles("forget"), cycles("train"))


def _shipped() -> Mapping[str, LearnerCycles]:
    learners = read_table(_FILE).only("source", "learners").table("learners")
    return MappingProxyType({name: _read(learners.table(name)) for name in learners.content})


CYCLES: Mapping[str, LearnerCycles] = _shipped()


def cycles_of(learner: str) -> LearnerCycles:
    """Return what was measured of a learner; one of another package says so itself.

    >>> cycles_of("neighbors").forget.per_operation > cycles_of("neighbors").learn.per_operation
    True
    """
    if learner in CYCLES:
        return CYCLES[learner]
    if learner not in plugins(_OTHERS):
        raise unknown_name("learner with measured cycles", learner, CYCLES)
    declared = getattr(plugged_in(_OTHERS, learner), "cycles", None)
    if not isinstance(declared, LearnerCycles):
        raise BadInput(
            f"the learner {learner!r} does not say what it costs on a phone; its class needs "
            "`cycles`, a dealfl.power.LearnerCycles (dealfl devices calibrate measures)"
        )
    return declared
