"""Who could be woken: awake, idle, fitting the job, with examples waiting and charge to spare."""

from __future__ import annotations

from dataclasses import replace

from dealfl.messages import Announce
from dealfl.server.predictions import Predictions
from dealfl.server.selection import Candidate
from dealfl.server.tables import WorkerRow
from dealfl.server.terms import Terms

__all__ = ["announced", "candidates", "declined", "spent"]

_DAY_S = 86_400.0
_WEIGHT_CAP = 100  # examples; more than that make a worker no more attractive


def announced(row: WorkerRow, message: Announce, fits: bool, now_s: float) -> WorkerRow:
    """Return a worker's row after it said where it stands."""
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
    )


def spent(row: WorkerRow, energy_j: float, now_s: float) -> WorkerRow:
    """Return a worker's row after it spent energy; the budget begins anew every 24 hours."""
    if not 0 <= now_s - row.spent_since_s < _DAY_S:
        row = replace(row, spent_j=0.0, spent_since_s=now_s)
    used_j = max(energy_j, 0.0)  # nobody gets charge back
    return replace(row, spent_j=row.spent_j + used_j, last_energy_j=used_j)


def declined(row: WorkerRow) -> WorkerRow:
    """Return a worker's row after it declined: it is not asked again until it announces itself."""
    return replace(row, training=False, waiting=0)


def candidates(
    workers: dict[str, WorkerRow],
    terms: Terms,
    now_s: float,
    predictions: Predictions | None = None,
) -> list[Candidate]:
    """Return everybody who could be woken now, by name, with what to expect of them."""
    found = []
    for name, row in sorted(workers.items()):
        if not (_able(row) and _awake(row, terms, now_s)):
            continue
        expected = predictions.of(row) if predictions else None
        elapsed_s = expected.elapsed_s if expected else None
        energy_j = expected.energy_j if expected and expected.energy_j else None
        if _affords(row, terms, now_s, row.last_energy_j if energy_j is None else energy_j):
            weight = min(row.waiting, _WEIGHT_CAP)
            found.append(Candidate(name, weight, elapsed_s, energy_j))
    return found


def _able(row: WorkerRow) -> bool:
    return row.fits and row.waiting > 0


def _awake(row: WorkerRow, terms: Terms, now_s: float) -> bool:
    # a clock that jumped back makes everybody heard in the future: they are awake
    return not row.training and now_s - row.heard_s <= terms.heard_within_s


def _affords(row: WorkerRow, terms: Terms, now_s: float, energy_j: float) -> bool:
    if row.charging or row.capacity_j <= 0:
        return True
    fresh = not 0 <= now_s - row.spent_since_s < _DAY_S
    already_j = 0.0 if fresh else row.spent_j
    return already_j + energy_j <= terms.battery_budget * row.capacity_j
