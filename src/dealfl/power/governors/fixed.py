"""The governors that ignore the load."""

from dealfl.power.governors.base import Frequencies

__all__ = ["Performance", "Powersave"]


class _Fixed:
    def __init__(self, frequency_hz: int) -> None:
        self.frequency_hz = frequency_hz
        self.wait_s = float("inf")

    def step(self, load: float, now_s: float) -> int:  # noqa: ARG002
        """Return the one frequency."""
        return self.frequency_hz


class Performance(_Fixed):
    """Always the fastest."""

    def __init__(self, frequencies: Frequencies) -> None:
        super().__init__(frequencies.highest)


class Powersave(_Fixed):
    """Always the slowest: cheapest in power, and dear in charge for the work done."""

    def __init__(self, frequencies: Frequencies) -> None:
        super().__init__(frequencies.lowest)
