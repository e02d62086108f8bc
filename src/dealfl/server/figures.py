"""What the ledger says of rounds and workers in sum: read, never written."""

from __future__ import annotations

from dataclasses import dataclass

from dealfl.server.ledger import Ledger

__all__ = ["RoundFigures", "Selections", "replied_so_far", "round_figures", "selections"]


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """Who took part in a round, and what it brought; `able` could have been selected."""

    able: int
    selected: int
    replied: int


@dataclass(frozen=True, slots=True)
class Selections:
    """How often a worker was selected, and how often it replied with an update."""

    selected: int = 0
    replied: int = 0


def round_figures(ledger: Ledger, number: int) -> RoundFigures:
    """Return what a round was like."""
    row = ledger.read(
        "SELECT r.able, count(s.worker), sum(s.replied_s IS NOT NULL AND s.declined = '') "
        "FROM rounds r LEFT JOIN selections s ON s.round = r.number "
        "WHERE r.number = ? GROUP BY r.number",
        (number,),
    )[0]
    return RoundFigures(*(int(figure or 0) for figure in row))


def replied_so_far(ledger: Ledger) -> tuple[int, int]:
    """Return how many examples were learned and evicted by all replies, late ones included."""
    learned, evicted = ledger.read("SELECT sum(learned), sum(evicted) FROM selections")[0]
    return int(learned or 0), int(evicted or 0)


def selections(ledger: Ledger) -> dict[str, Selections]:
    """Return how often each worker took part, by name."""
    rows = ledger.read(
        "SELECT worker, count(*), sum(replied_s IS NOT NULL AND declined = '') "
        "FROM selections GROUP BY worker ORDER BY worker"
    )
    return {str(name): Selections(int(chosen), int(replied)) for name, chosen, replied in rows}
