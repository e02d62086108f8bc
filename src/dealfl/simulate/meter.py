"""What training costs on a simulated device: so many operations a second, so many joules each."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Protocol

from dealfl.power import Energy, Spent
from dealfl.worker import Cost, Done, Meter

__all__ = ["Accounting", "SpeedMeter", "Straggling"]


class Accounting(Meter, Protocol):
    """A meter that adds up what was spent."""

    spent: Spent  # so far


@dataclass(slots=True)
class SpeedMeter:
    """Models cost from the work done, and adds up what was spent.

    >>> from dealfl.learners import Work
    >>> meter = SpeedMeter(operations_per_s=1e6, joules_per_operation=1e-6, wake_j=0.5)
    >>> meter.cost(Done(learned=Work(2_000_000, 0)))
    Cost(elapsed_s=2.0, energy_j=2.5, source='modelled', transfer_s=0.0)
    """

    operations_per_s: float
    joules_per_operation: float
    wake_j: float = 0.0
    spent: Spent = field(default_factory=Spent, init=False)

    def start(self) -> None:
        """Do nothing: a model needs no beginning."""

    def cost(self, done: Done) -> Cost:
        """Return what work cost; forgetting costs as much as learning."""
        operations = done.work.operations
        compute = self._compute(operations)
        radio = Energy(awake_j=self.wake_j if done.wakes else 0.0)
        scratch = done.learned.operations * done.held / done.examples if done.examples else 0.0
        self.spent = self.spent + Spent(
            compute=compute,
            operating=compute,
            radio=radio,
            fastest=compute + radio,
            fastest_compute_j=compute.total_j,
            scratch_j=self._compute(scratch).total_j,
            operations=operations,
            wake_ups=int(done.wakes),
        )
        return Cost(compute.elapsed_s, compute.total_j + radio.total_j)

    def _compute(self, operations: float) -> Energy:
        elapsed_s = operations / self.operations_per_s
        return Energy(cpu_j=operations * self.joules_per_operation, elapsed_s=elapsed_s)


@dataclass(slots=True)
class Straggling:
    """Now and then a training takes so many times as long, and no more energy."""

    meter: Meter
    share: float
    factor: float
    draw: random.Random

    def start(self) -> None:
        """Start the meter."""
        self.meter.start()

    def cost(self, done: Done) -> Cost:
        """Return the cost, late or not."""
        cost = self.meter.cost(done)
        late = self.draw.random() < self.share
        return replace(cost, elapsed_s=cost.elapsed_s * self.factor) if late else cost
