"""The roster: which workers can be selected, and the weight of each.

A worker can be selected if it is present, idle, compatible with the job, has waiting examples and
stays within its energy budget. Its weight is the number of waiting examples, discounted by the
energy of each. An example counts 1 if it costs nothing and 1/2 at `half_example_j` joules:

    weight = min(waiting, 100) / (1 + joules per example / half_example_j)

Predicted energy covers the whole device, so all waiting examples share the fixed cost of a wake-up.
On a battery, a joule counts more the emptier the battery is; on a charger it counts once.
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

MAX_WEIGHT = 100.0  # examples; more do not increase the weight
_MIN_BATTERY = 0.1
_DAY_S = 86_400.0


def note_announcement(row: WorkerRow, message: Announce, fits: bool, now_s: float) -> WorkerRow:
    """Return a worker's row after an announcement."""
    return replace(
        row,
        waiting=message.waiting,
        held=message.held,
        device=message.device,
        battery=message.battery,
        charging=message.charging,
        capacity_j=message.capacity_j,
        # the message may be older than the assignment
        training=message.training or (row.training and now_s < row.busy_until_s),
        fits=fits,
        heard_s=now_s,
        # after the clock jumped back, examples must not wait longer
        waiting_since_s=min(row.waiting_since_s, now_s) if row.waiting else now_s,
    )


def note_reply(row: WorkerRow, learned: int, now_s: float) -> WorkerRow:
    """Return a worker's row after a training; the remaining examples arrived since."""
    left = max(row.waiting - learned, 0)
    return replace(row, training=False, waiting=left, waiting_since_s=now_s)


def note_spending(row: WorkerRow, energy_j: float, now_s: float) -> WorkerRow:
    """Return a worker's row after it spent energy.

    Parameters
    ----------
    row : WorkerRow
        The worker.
    energy_j : float
        Energy in joules; a negative value counts as 0.
    now_s : float
        Current time in seconds of the server's clock.

    Returns
    -------
    WorkerRow
        The row with the energy added. The budget starts again every 24 hours.
    """
    if not 0 <= now_s - row.spent_since_s < _DAY_S:
        row = replace(row, spent_j=0.0, spent_since_s=now_s)
    used_j = max(energy_j, 0.0)  # training returns no charge
    return replace(row, spent_j=row.spent_j + used_j, last_energy_j=used_j)


def correct_spending(row: WorkerRow, assumed_j: float, energy_j: float, now_s: float) -> WorkerRow:
    """Return a worker's row with reported energy in place of assumed energy."""
    return note_spending(replace(row, spent_j=max(row.spent_j - assumed_j, 0.0)), energy_j, now_s)


def note_decline(row: WorkerRow) -> WorkerRow:
    """Return a worker's row after it declined.

    Parameters
    ----------
    row : WorkerRow
        The worker.

    Returns
    -------
    WorkerRow
        The row of a worker that must announce itself before it is selected again.
    """
    return replace(row, training=False, waiting=0)


def find_candidates(
    workers: dict[str, WorkerRow],
    terms: Terms,
    now_s: float,
    predictions: Predictions | None = None,
) -> list[Candidate]:
    """Return all workers that can be selected now.

    Parameters
    ----------
    workers : dict of str to WorkerRow
        All known workers.
    terms : Terms
        Limits on waiting examples, presence and energy.
    now_s : float
        Current time in seconds of the server's clock.
    predictions : Predictions or None
        Source of expected times and energies; None for no expectation.

    Returns
    -------
    list of Candidate
        Candidates sorted by name, with weight, expected time and energy.
    """
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
    """Return the weight of a worker in the selection.

    Parameters
    ----------
    row : WorkerRow
        A worker with waiting examples.
    energy_j : float or None
        Expected energy of its training in joules; None if unknown.
    half_example_j : float
        Energy per example at which an example counts half; 0 ignores energy.

    Returns
    -------
    float
        A weight in (0, 100].

    Examples
    --------
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
    # after the clock jumped back, `heard_s` may be in the future: the worker is awake
    heard = row.heard_s is not None and now_s - row.heard_s <= terms.presence_timeout_s
    return heard and not row.training


def _affords(row: WorkerRow, terms: Terms, now_s: float, energy_j: float) -> bool:
    if row.charging or row.capacity_j <= 0:
        return True
    fresh = not 0 <= now_s - row.spent_since_s < _DAY_S
    already_j = 0.0 if fresh else row.spent_j
    return already_j + energy_j <= terms.battery_budget * row.capacity_j
