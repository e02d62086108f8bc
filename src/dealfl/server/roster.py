"""Who could be woken: awake, idle, fitting the job, with examples waiting and charge to spare.

What a worker is worth in advance are its waiting examples, discounted by the energy each will cost.
An example is worth 1 if it costs nothing, half at `half_example_j` joules, and goes to 0 beyond:

    worth = min(waiting, 100) / (1 + joules for an example / half_example_j)

Energy is predicted for the whole device, so all waiting examples share the fixed part of a wake-up:
more waiting is worth more, also for each example. On a battery a joule counts for more the emptier
the battery is; on a charger it counts once.
"""

from __future__ import annotations

from dataclasses import replace

from dealfl.messages import Announce
from dealfl.server.predictions import Predictions
from dealfl.server.selection import Candidate
from dealfl.server.tables import WorkerRow
from dealfl.server.terms import Terms

__all__ = [
    "MAX_WEIGHT",
    "compute_weight",
    "correct_spending",
    "find_candidates",
    "note_announcement",
    "note_decline",
    "note_reply",
    "note_spending",
]

MAX_WEIGHT = 100.0  # examples; more than that make a worker no more attractive
_MIN_BATTERY = 0.1
_DAY_S = 86_400.0


def note_announcement(row: WorkerRow, message: Announce, fits: bool, now_s: float) -> WorkerRow:
    """Return a worker's row after it announced itself."""
    return replace(
        row,
        waiting=message.waiting,
        held=message.held,
        device=message.device,
        battery=message.battery,
        charging=message.charging,
        capacity_j=message.capacity_j,
        # it may have said so before its assignment reached it
        training=message.training or (row.training and now_s < row.busy_until_s),
        fits=fits,
        heard_s=now_s,
        # a clock that jumped back must not make examples wait for longer
        waiting_since_s=min(row.waiting_since_s, now_s) if row.waiting else now_s,
    )


def note_reply(row: WorkerRow, learned: int, now_s: float) -> WorkerRow:
    """Return a worker's row after it trained: what is left has come in the meantime."""
    left = max(row.waiting - learned, 0)
    return replace(row, training=False, waiting=left, waiting_since_s=now_s)


def note_spending(row: WorkerRow, energy_j: float, now_s: float) -> WorkerRow:
    """Return a worker's row after it spent energy; the budget starts again every 24 hours."""
    if not 0 <= now_s - row.spent_since_s < _DAY_S:
        row = replace(row, spent_j=0.0, spent_since_s=now_s)
    used_j = max(energy_j, 0.0)  # nobody gets charge back
    return replace(row, spent_j=row.spent_j + used_j, last_energy_j=used_j)


def correct_spending(row: WorkerRow, assumed_j: float, energy_j: float, now_s: float) -> WorkerRow:
    """Return a worker's row with the energy it spent in place of what was assumed before."""
    return note_spending(replace(row, spent_j=max(row.spent_j - assumed_j, 0.0)), energy_j, now_s)


def note_decline(row: WorkerRow) -> WorkerRow:
    """Return a worker's row after it declined; it has to announce itself to be selected again."""
    return replace(row, training=False, waiting=0)


def find_candidates(
    workers: dict[str, WorkerRow],
    terms: Terms,
    now_s: float,
    predictions: Predictions | None = None,
) -> list[Candidate]:
    """Return everybody who could be woken now, by name, with what to expect of each."""
    found = []
    for name, row in sorted(workers.items()):
        if not (_able(row, terms, now_s) and _awake(row, terms, now_s)):
            continue
        expected = predictions.predict(row) if predictions else None
        elapsed_s = expected.elapsed_s if expected else None
        energy_j = expected.energy_j if expected and expected.energy_j else None
        if _affords(row, terms, now_s, row.last_energy_j if energy_j is None else energy_j):
            weight = compute_weight(row, energy_j, terms.rewards.half_example_j)
            overdue = _overdue(row, terms, now_s)
            found.append(Candidate(name, weight, elapsed_s, energy_j, overdue))
    return found


def compute_weight(row: WorkerRow, energy_j: float | None, half_example_j: float) -> float:
    """Return a weight in (0, 100]; energy that is not known, or a half of 0, takes nothing away.

    >>> row = WorkerRow("w", waiting=20, battery=0.5)
    >>> compute_weight(row, 1.0, 0.1), compute_weight(row, None, 0.1)
    (10.0, 20.0)
    """
    examples = min(float(row.waiting), MAX_WEIGHT)
    if not energy_j or not half_example_j:
        return examples
    example_j = energy_j / row.waiting
    if not row.charging:
        example_j /= min(max(row.battery, _MIN_BATTERY), 1.0)
    return examples / (1.0 + example_j / half_example_j)


def _able(row: WorkerRow, terms: Terms, now_s: float) -> bool:
    if not row.fits or row.waiting < 1:
        return False
    return row.waiting >= terms.min_waiting or _overdue(row, terms, now_s)


def _overdue(row: WorkerRow, terms: Terms, now_s: float) -> bool:
    return now_s - row.waiting_since_s >= terms.max_wait_s


def _awake(row: WorkerRow, terms: Terms, now_s: float) -> bool:
    # a clock that jumped back makes everybody heard in the future: they are awake
    heard = row.heard_s is not None and now_s - row.heard_s <= terms.presence_timeout_s
    return heard and not row.training


def _affords(row: WorkerRow, terms: Terms, now_s: float, energy_j: float) -> bool:
    if row.charging or row.capacity_j <= 0:
        return True
    fresh = not 0 <= now_s - row.spent_since_s < _DAY_S
    already_j = 0.0 if fresh else row.spent_j
    return already_j + energy_j <= terms.battery_budget * row.capacity_j
