"""Clocks that can be told how fast to run, and their twins for simulation and for no permission."""

from collections.abc import Iterable
from typing import Protocol

__all__ = ["Clock", "NoClock", "SimulatedClock"]


class Clock(Protocol):
    """A clock whose highest frequency can be chosen."""

    @property
    def frequencies_hz(self) -> tuple[int, ...]:
        """The frequencies it can be limited to, slowest first; none if it is not ours to set."""

    def set_frequency(self, frequency_hz: int) -> None:
        """Run at this frequency at most."""

    def release(self) -> None:
        """Run as if nobody had set anything."""


class SimulatedClock:
    """A clock that remembers what it was told.

    Examples
    --------
    >>> clock = SimulatedClock([10**9, 2 * 10**9])
    >>> clock.set_frequency(10**9)
    >>> clock.frequency_hz, clock.changes
    (1000000000, 1)
    """

    def __init__(self, frequencies_hz: Iterable[int]) -> None:
        self.frequencies_hz = tuple(sorted(set(frequencies_hz)))
        self.frequency_hz = self.frequencies_hz[-1]
        self.changes = 0

    def set_frequency(self, frequency_hz: int) -> None:
        """Run at this frequency."""
        self.frequency_hz = frequency_hz
        self.changes += 1

    def release(self) -> None:
        """Run at the highest frequency."""
        self.set_frequency(self.frequencies_hz[-1])


class NoClock:
    """The clock of a device that does not let us set any: it takes every call and does nothing."""

    frequencies_hz: tuple[int, ...] = ()

    def set_frequency(self, frequency_hz: int) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Do nothing."""
