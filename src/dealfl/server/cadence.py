"""How often it is decided whom to wake: rounds open at ticks, not whenever somebody could train."""

from __future__ import annotations

from dealfl.server.ledger import Ledger

__all__ = ["Cadence"]


class Cadence:
    """Is due once in a period, which begins when it was due last; without one it always is.

    The next tick is in the ledger: a restart makes no extra one.
    """

    def __init__(self, ledger: Ledger, every_s: float) -> None:
        self._ledger, self._every_s = ledger, every_s

    @property
    def next_s(self) -> float | None:
        """The next tick, if there is one to wait for."""
        saved = self._ledger.setting("next_opening_s") if self._every_s else b""
        return float(saved) if saved else None

    def due(self, now_s: float) -> bool:
        """Return whether it is time; if so, it is not before another period has passed."""
        if not self._every_s:
            return True
        next_s = self.next_s
        # a tick further away than a period: the clock jumped back
        if next_s is not None and now_s < next_s <= now_s + self._every_s:
            return False
        self._ledger.set_setting("next_opening_s", repr(now_s + self._every_s).encode())
        return True
