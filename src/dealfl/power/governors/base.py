"""What every governor is, and the table of frequencies it chooses from."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Protocol

from dealfl.errors import BadInput

__all__ = ["Frequencies", "Governor"]


class Governor(Protocol):
    """Chooses a clock frequency from the load it is told of."""

    @property
    def frequency_hz(self) -> int:
        """The frequency it has chosen."""

    @property
    def wait_s(self) -> float:
        """How long it wants to wait for its next step."""

    def step(self, load: float, now_s: float) -> int:
        """Return the frequency to run at from now on.

        `load` is the busy fraction of the time since the last step, of the busiest core.
        """


class Frequencies(tuple[int, ...]):
    """The frequencies of a clock in hertz, slowest first.

    Examples
    --------
    >>> table = Frequencies([300, 200, 100])
    >>> table.at_least(150), table.at_least(999), table.at_most(150), table.at_most(1)
    (200, 300, 100, 100)
    """

    __slots__ = ()

    def __new__(cls, frequencies_hz: Iterable[int]) -> "Frequencies":
        """Sort the frequencies and drop repeated ones."""
        table = sorted(set(frequencies_hz))
        if not table or table[0] <= 0:
            raise BadInput(f"frequencies are {table}; at least one above 0 Hz is needed")
        return super().__new__(cls, table)

    @property
    def lowest(self) -> int:
        """The slowest."""
        return self[0]

    @property
    def highest(self) -> int:
        """The fastest."""
        return self[-1]

    def at_least(self, frequency_hz: float) -> int:
        """Return the lowest that is not below, else the highest (the kernel's RELATION_L)."""
        return self[min(bisect_left(self, frequency_hz), len(self) - 1)]

    def at_most(self, frequency_hz: float) -> int:
        """Return the highest that is not above, else the lowest (the kernel's RELATION_H)."""
        return self[max(bisect_right(self, frequency_hz) - 1, 0)]
