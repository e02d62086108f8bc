"""A selector: all workers take turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dealfl.plugins import Candidate, Selector

__all__ = ["InTurn"]


class InTurn(Selector):
    """Selects the workers that waited longest; equal ones by name.

    >>> turn = InTurn()
    >>> [turn.select(number, [Candidate("a"), Candidate("b")], 1) for number in (1, 2, 3)]
    [['a'], ['b'], ['a']]
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._stale: set[str] = set()

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return the workers that were selected least recently."""
        names = sorted((self._last.get(one.name, 0), one.name) for one in candidates)[:count]
        self._last.update({name: round_number for _, name in names})
        self._stale.update(name for _, name in names)
        return [name for _, name in names]

    def remove(self, worker: str) -> None:
        """Drop a worker."""
        self._last.pop(worker, None)
        self._stale.add(worker)

    def changes(self) -> Mapping[str, bytes]:
        """Return the last round of each worker that was selected or dropped since the last call."""
        stale, self._stale = self._stale, set()
        return {name: str(self._last.get(name, "")).encode() for name in stale}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Resume from a saved state."""
        self._last = {name: int(last) for name, last in parts.items()}
        self._stale = set()
