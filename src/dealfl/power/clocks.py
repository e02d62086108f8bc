"""Frequencies of a clock, and clocks whose maximum frequency can be set."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Protocol

from dealfl.errors import BadInput

__all__ = ["Clock", "Frequencies", "NoClock", "SimulatedClock"]


class Frequencies(tuple[int, ...]):
    """The available frequencies of a clock, in hertz, slowest first.

    Examples
    --------
    >>> table = Frequencies([300, 200, 100])
    >>> table.at_least(150), table.at_least(999), table.at_most(150), table.at_most(1)
    (200, 300, 100, 100)
    """

    __slots__ = ()

    def __new__(cls, frequencies_hz: Iterable[int]) -> "Frequencies":
        """Sort the frequencies and remove duplicates."""
        table = sorted(set(frequencies_hz))
        if not table or table[0] <= 0:
            raise BadInput(f"frequencies_hz is {table}; give at least one, each above 0 Hz")
        return super().__new__(cls, table)

    @property
    def lowest(self) -> int:
        """The lowest frequency, in hertz."""
        return self[0]

    @property
    def highest(self) -> int:
        """The highest frequency, in hertz."""
        return self[-1]

    def at_least(self, frequency_hz: float) -> int:
        """Return the lowest frequency that is not below a target, else the highest.

        This is CPUFREQ_RELATION_L of the kernel.
        """
        return self[min(bisect_left(self, frequency_hz), len(self) - 1)]

    def at_most(self, frequency_hz: float) -> int:
        """Return the highest frequency that is not above a target, else the lowest.

        This is CPUFREQ_RELATION_H of the kernel.
        """
        return self[max(bisect_right(self, frequency_hz) - 1, 0)]


class Clock(Protocol):
    """A clock whose maximum frequency can be set."""

    @property
    def frequencies_hz(self) -> tuple[int, ...]:
        """The available limits in hertz, slowest first; empty if the clock cannot be set."""

    def set_frequency(self, frequency_hz: int) -> None:
        """Limit the clock to a frequency."""

    def release(self) -> None:
        """Remove the limit."""


class SimulatedClock:
    """A clock that records its current frequency and the number of changes.

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
        """Run at a frequency."""
        self.frequency_hz = frequency_hz
        self.changes += 1

    def release(self) -> None:
        """Run at the highest frequency."""
        self.set_frequency(self.frequencies_hz[-1])


class NoClock:
    """The clock of a device that does not allow frequency control; every call does nothing."""

    frequencies_hz: tuple[int, ...] = ()

    def set_frequency(self, frequency_hz: int) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Do nothing."""
