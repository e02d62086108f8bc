"""Who could be woken: awake, idle, fitting the job, with examples waiting and charge to spare."""

from __future__ import annotations

from dataclasses import replace

from dealfl.messages import Announce
from dealfl.server.selection import Candidate
from dealfl.server.tables import WorkerRow
from dealfl.server.terms import Terms

__all__ = ["announced", "candidates", "spent"]

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


def candidates(workers: dict[str, WorkerRow], terms: Terms, now_s: float) -> list[Candidate]:
    """Return everybody who could be woken now, by name."""
    return [
        Candidate(name, weight=min(row.waiting, _WEIGHT_CAP))
        for name, row in sorted(workers.items())
        if _able(row) and _awake(row, terms, now_s) and _affords(row, terms, now_s)
    ]


def _able(row: WorkerRow) -> bool:
    return row.fits and row.waiting > 0


def _awake(row: WorkerRow, terms: Terms, now_s: float) -> bool:
    # a clock that jumped back makes everybody heard in the future: they are awake
    return not row.training and now_s - row.heard_s <= terms.heard_within_s


def _affords(row: WorkerRow, terms: Terms, now_s: float) -> bool:
    if row.charging or row.capacity_j <= 0:
        return True
    fresh = not 0 <= now_s - row.spent_since_s < _DAY_S
    already_j = 0.0 if fresh else row.spent_j
    return already_j + row.last_energy_j <= terms.battery_budget * row.capacity_j
