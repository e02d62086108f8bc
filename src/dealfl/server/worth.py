"""What a worker is worth in advance: its waiting examples, for less the dearer each will be.

An example is worth 1 while it costs nothing, half at `half_example_j` joules, and goes to 0 beyond:

    worth = min(waiting, 100) / (1 + joules for an example / half_example_j)

What a training costs is predicted for the whole device, so the fixed part of a wake-up is shared by
all that waits: more waiting is worth more, also for each example; a dearer radio makes it less. On
a battery a joule counts for more the emptier it is; on a charger it counts once.
"""

from __future__ import annotations

from dealfl.server.tables import WorkerRow

__all__ = ["MOST_WORTH", "worth"]

MOST_WORTH = 100.0  # examples; more than that make a worker no more attractive
_EMPTIEST = 0.1


def worth(row: WorkerRow, energy_j: float | None, half_example_j: float) -> float:
    """Return a weight in (0, 100]; energy that is not known, or a half of 0, takes nothing away.

    >>> row = WorkerRow("w", waiting=20, battery=0.5)
    >>> worth(row, 1.0, 0.1), worth(row, None, 0.1)
    (10.0, 20.0)
    """
    examples = min(float(row.waiting), MOST_WORTH)
    if not energy_j or not half_example_j:
        return examples
    example_j = energy_j / row.waiting
    if not row.charging:
        example_j /= min(max(row.battery, _EMPTIEST), 1.0)
    return examples / (1.0 + example_j / half_example_j)
