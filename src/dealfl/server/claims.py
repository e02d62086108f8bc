"""Claims: the figures in an update, held against its delta and against the profile of its device.

A delta shows how many examples it adds, less those that it removes. Energy and time cannot be
shown; they are compared with what a phone of this kind needs at least.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from dealfl.protocol import Update
from dealfl.server.predictions import Prediction
from dealfl.server.tables import WorkerRow

__all__ = ["Stored", "credit", "find_misfit", "is_exaggerated", "note_doubt", "without_claims"]

_MAX_DOUBTS = 10  # the weight of a worker is halved for each
_ANNOUNCED, _REPEATED = 2, 100  # announced examples for each that is learned
_FACTOR = 1000.0  # below what a device needs; claims above only cost the worker


@dataclass(frozen=True, slots=True)
class Stored:
    """An update that was stored, and what its delta shows.

    The net number of records is None if it is not determined. `held` is the number of examples
    that the worker had in the model before; None if an earlier update is missing, or if examples
    share records.
    """

    records: int | None
    held: int | None
    is_zero: bool


def find_misfit(update: Update, stored: Stored, least: Prediction, evicted_share: float) -> str:
    """Return which claims do not fit; empty if all do."""
    net = update.learned - update.evicted
    if stored.records is not None and net != stored.records:
        return f"update claims {net:,} more examples; its delta has {stored.records:,}"
    if stored.held is not None and not update.rebuilt:
        most = _evictable(stored.held, evicted_share)
        if update.evicted > most:
            return f"update claims {update.evicted:,} evicted examples; at most {most:,} can be"
    for unit, claimed, needed in (
        ("s", update.elapsed_s, least.elapsed_s),
        ("J", update.energy_j, least.energy_j),
    ):
        if 0.0 < claimed < needed / _FACTOR:
            return f"update claims {claimed:.3g} {unit}; its device needs {needed:.3g} {unit}"
    return ""


def credit(update: Update, stored: Stored, examples: int, evicted_share: float) -> int:
    """Return how many examples count as learned for the reward.

    Evictions hide learned examples from the server. They are believed as far as the retention of
    the job explains them for a worker with this number of examples in the model.
    """
    if stored.is_zero or stored.records is None:
        return 0 if stored.is_zero else update.learned
    hidden = 0 if update.rebuilt else min(update.evicted, _evictable(examples, evicted_share))
    return max(stored.records + hidden, 0)


def _evictable(held: int, evicted_share: float) -> int:
    """Return a generous limit of the evictions in one training."""
    return int(2.0 * evicted_share * max(held, 0)) + 1


def is_exaggerated(announced: int, update: Update, stored: Stored) -> bool:
    """Return whether a worker announced far more waiting examples than it learned."""
    # items of histories can be repeated; without an earlier update, nothing is certain
    allowed = _ANNOUNCED if stored.held is not None else _REPEATED
    return announced > allowed * max(update.learned, 1)


def note_doubt(row: WorkerRow, doubtful: bool) -> WorkerRow:
    """Return a worker's row with a doubt more, or one less after a training that fits."""
    doubts = row.doubts + 1 if doubtful else row.doubts - 1
    return replace(row, doubts=min(max(doubts, 0), _MAX_DOUBTS))


def without_claims(update: Update) -> Update:
    """Return an update whose figures are 0; only its delta counts."""
    return replace(update, learned=0, evicted=0, operations=0, elapsed_s=0.0, energy_j=0.0)
