"""Everyone is woken."""

from collections.abc import Sequence

from dealfl.server.selection.base import Candidate

__all__ = ["Everyone"]


class Everyone:
    """Wakes all candidates, whatever the count: the traditional way, as a baseline.

    >>> Everyone().select(1, [Candidate("a"), Candidate("b")], count=1)
    ['a', 'b']
    """

    def select(self, round_number: int, candidates: Sequence[Candidate], count: int) -> list[str]:  # noqa: ARG002
        """Return all candidates."""
        return [candidate.name for candidate in candidates]

    def earned(self, round_number: int, worker: str, reward: float) -> None:
        """Learn nothing."""

    def gone(self, worker: str) -> None:
        """Drop nothing."""

    def state(self) -> bytes:
        """Return nothing."""
        return b""

    def restore(self, state: bytes) -> None:
        """Restore nothing."""
