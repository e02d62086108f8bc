"""What training costs on a simulated device: so many operations a second, so many joules each."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from dealfl.learners import Work
from dealfl.worker import Cost

__all__ = ["SpeedMeter"]


@dataclass(slots=True)
class SpeedMeter:
    """Models cost from the work done, and adds up what was spent; now and then one straggles.

    >>> SpeedMeter(operations_per_s=1e6, joules_per_operation=1e-6).cost(Work(2_000_000, 0))
    Cost(elapsed_s=2.0, energy_j=2.0)
    """

    operations_per_s: float
    joules_per_operation: float
    wake_j: float = 0.0
    straggler_share: float = 0.0
    straggler_factor: float = 1.0
    draw: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311
    energy_j: float = field(default=0.0, init=False)
    operations: int = field(default=0, init=False)

    def cost(self, work: Work) -> Cost:
        """Return what work cost: a straggler takes longer, and no more energy."""
        elapsed_s = work.operations / self.operations_per_s
        if self.draw.random() < self.straggler_share:
            elapsed_s *= self.straggler_factor
        energy_j = self.wake_j + work.operations * self.joules_per_operation
        self.energy_j += energy_j
        self.operations += work.operations
        return Cost(elapsed_s, energy_j)
