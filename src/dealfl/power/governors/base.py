"""The protocol of governors, and the table of frequencies they choose from."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Protocol

from dealfl.errors import BadInput

__all__ = ["Frequencies", "Governor"]


class Governor(Protocol):
    """Chooses a clock frequency from the load."""

    @property
    def frequency_hz(self) -> int:
        """The current frequency, in hertz."""

    @property
    def wait_s(self) -> float:
        """Seconds until the next step."""

    def step(self, load: float, now_s: float) -> int:
        """Choose the next frequency.

        Parameters
        ----------
        load : float
            Busy fraction of the busiest core since the last step, from 0 to 1.
        now_s : float
            Current time, in seconds.

        Returns
        -------
        int
            Frequency, in hertz.
        """


class Frequencies(tuple[int, ...]):
    """The available frequencies of a clock, in hertz, slowest first.

    Parameters
    ----------
    frequencies_hz : iterable of int
        Frequencies in any order; duplicates are removed.

    Raises
    ------
    BadInput
        If there is no frequency, or one is not above 0.

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

        Parameters
        ----------
        frequency_hz : float
            Target, in hertz.

        Returns
        -------
        int
            Frequency, in hertz.
        """
        return self[min(bisect_left(self, frequency_hz), len(self) - 1)]

    def at_most(self, frequency_hz: float) -> int:
        """Return the highest frequency that is not above a target, else the lowest.

        This is CPUFREQ_RELATION_H of the kernel.

        Parameters
        ----------
        frequency_hz : float
            Target, in hertz.

        Returns
        -------
        int
            Frequency, in hertz.
        """
        return self[max(bisect_right(self, frequency_hz) - 1, 0)]
