"""How much of a run is done, over all its schemes, and how long the rest takes."""

from __future__ import annotations

from dealfl.report.formats import format_age

__all__ = ["Remaining"]

_LEAST_SHARE = 0.02
_LEAST_S = 1.0


class Remaining:
    """The share of a run that is done, and an estimate of the time left.

    Each scheme counts the same. The estimate is proportional: a run that did a tenth of its work in
    a minute has nine minutes left. Work of an earlier run that was resumed does not count.

    Examples
    --------
    >>> run = Remaining()
    >>> run.start_scheme(1, of=2)
    >>> run.update(0, of_rounds=10, now_s=0.0)
    >>> run.update(4, of_rounds=10, now_s=8.0)
    >>> run.share, run.left_s, str(run)
    (0.2, 32.0, '20 %, about 32 s left')
    """

    def __init__(self) -> None:
        self._before, self._schemes = 0, 1
        self._start: tuple[float, float] | None = None
        self._now_s = 0.0
        self.share = 0.0

    def start_scheme(self, place: int, of: int) -> None:
        """Start a scheme; `place` is counted from 1."""
        self._before, self._schemes = place - 1, of
        self.share = self._before / of

    def update(self, rounds: int, of_rounds: int, now_s: float) -> None:
        """Note how many rounds of the scheme are closed at a time."""
        inside = min(rounds / of_rounds, 1.0) if of_rounds else 0.0
        self.share, self._now_s = (self._before + inside) / self._schemes, now_s
        if self._start is None:
            self._start = self.share, now_s

    @property
    def left_s(self) -> float | None:
        """The time that is left, in seconds; None as long as nothing can be said."""
        if self._start is None:
            return None
        done, took_s = self.share - self._start[0], self._now_s - self._start[1]
        if done < _LEAST_SHARE or took_s < _LEAST_S:
            return None
        return took_s * (1.0 - self.share) / done

    def __str__(self) -> str:
        left = "" if self.left_s is None else f", about {format_age(self.left_s)} left"
        return f"{self.share:.0%}".replace("%", " %") + left
