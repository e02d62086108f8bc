"""A selector: all workers take turns."""

from __future__ import annotations

from collections.abc import Sequence

from dealfl.server.selection import Candidate

__all__ = ["InTurn"]


class InTurn:
    """Selects the workers that waited longest; equal ones by name.

    >>> turn = InTurn()
    >>> [turn.select(number, [Candidate("a"), Candidate("b")], 1) for number in (1, 2, 3)]
    [['a'], ['b'], ['a']]
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:
        """Return the workers that were selected least recently."""
        names = sorted((self._last.get(one.name, 0), one.name) for one in candidates)[:count]
        self._last.update({name: round_number for _, name in names})
        return [name for _, name in names]

    def record_reward(self, round_number: int, worker: str, reward: float) -> None:
        """Ignore the reward."""

    def remove(self, worker: str) -> None:
        """Drop a worker."""
        self._last.pop(worker, None)

    def state(self) -> bytes:
        """Return the last round of each worker."""
        return "\n".join(f"{last} {name}" for name, last in sorted(self._last.items())).encode()

    def restore(self, state: bytes) -> None:
        """Resume from a saved state."""
        pairs = (line.split(" ", 1) for line in state.decode().splitlines())
        self._last = {name: int(last) for last, name in pairs}
