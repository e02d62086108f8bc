"""When is it enough? When the model has hardly changed for several rounds that had a majority."""

from __future__ import annotations

__all__ = ["Convergence"]


class Convergence:
    """Counts quiet rounds in a row; a round without a majority says nothing either way.

    >>> quiet = Convergence(tolerance=0.01, patience=2)
    >>> [quiet.closed(change, majority=True) for change in (0.5, 0.001, 0.001)]
    [False, False, True]
    """

    def __init__(self, tolerance: float, patience: int, quiet: int = 0) -> None:
        self._tolerance, self._patience = tolerance, patience
        self.quiet = quiet

    def closed(self, change: float, *, majority: bool) -> bool:
        """Return whether it is enough after a round that changed the model so much."""
        if majority:
            self.quiet = self.quiet + 1 if change < self._tolerance else 0
        return self.quiet >= self._patience
