"""The clock governors of Linux kernels as state machines; time is an argument of each step.

>>> from dealfl.power import governor
>>> ondemand = governor("ondemand", [300_000_000, 1_000_000_000, 2_000_000_000])
>>> ondemand.step(load=0.4, now_s=0.01)
1000000000
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from dealfl.errors import unknown_name
from dealfl.power.clocks import Frequencies
from dealfl.power.interactive import NEXUS_6, Interactive

__all__ = ["GOVERNORS", "Conservative", "Governor", "Ondemand", "Schedutil", "governor"]

_HALF_LIFE_S = 0.032
_HEADROOM = 1.25
_FIRST_BOOST = 1 / 8


class Governor(Protocol):
    """Chooses a clock frequency from the load."""

    @property
    def frequency_hz(self) -> int:
        """The current frequency, in hertz."""

    @property
    def wait_s(self) -> float:
        """Seconds until the next step."""

    def step(self, load: float, now_s: float) -> int:
        """Return the next frequency, from the busy fraction (0 to 1) since the last step."""


class _Fixed:
    """One frequency for all loads."""

    def __init__(self, frequency_hz: int) -> None:
        self.frequency_hz = frequency_hz
        self.wait_s = float("inf")

    def step(self, load: float, now_s: float) -> int:  # noqa: ARG002
        """Return the fixed frequency."""
        return self.frequency_hz


class Ondemand:
    """The highest frequency above a load threshold, a proportional frequency below it.

    As in drivers/cpufreq/cpufreq_ondemand.c of Linux 3.10; since 3.11 the proportional range starts
    at the lowest frequency (`from_lowest`).
    """

    def __init__(
        self,
        frequencies: Frequencies,
        *,
        up_threshold: float = 0.95,
        sampling_rate_s: float = 0.01,
        sampling_down_factor: int = 1,
        from_lowest: bool = False,
    ) -> None:
        self._frequencies = frequencies
        self._up_threshold = up_threshold
        self._sampling_rate_s = sampling_rate_s
        self._held_s = sampling_rate_s * sampling_down_factor
        self._floor_hz = frequencies.lowest if from_lowest else 0
        self.frequency_hz = frequencies.lowest
        self.wait_s = sampling_rate_s

    def step(self, load: float, now_s: float) -> int:  # noqa: ARG002
        """Choose the next frequency."""
        highest = self._frequencies.highest
        if load > self._up_threshold:
            self.frequency_hz, self.wait_s = highest, self._held_s
            return highest
        wanted_hz = self._floor_hz + load * (highest - self._floor_hz)
        self.frequency_hz = self._frequencies.at_least(int(wanted_hz))
        self.wait_s = self._sampling_rate_s
        return self.frequency_hz


class Conservative:
    """Raises the frequency by a fixed step when busy and lowers it by the same step when idle.

    The requested frequency changes by the step. The selected frequency is the nearest available
    one, rounded against the direction of the change.
    """

    def __init__(
        self,
        frequencies: Frequencies,
        *,
        up_threshold: float = 0.80,
        down_threshold: float = 0.20,
        frequency_step: float = 0.05,
        sampling_rate_s: float = 0.01,
        sampling_down_factor: int = 1,
    ) -> None:
        self._frequencies = frequencies
        self._up_threshold = up_threshold
        self._down_threshold = down_threshold
        self._step_hz = int(frequency_step * frequencies.highest)
        self._sampling_down_factor = sampling_down_factor
        self._skipped = 0
        self._requested_hz = frequencies.lowest
        self.frequency_hz = frequencies.lowest
        self.wait_s = sampling_rate_s

    def step(self, load: float, now_s: float) -> int:  # noqa: ARG002
        """Choose the next frequency."""
        if load > self._up_threshold:
            self._skipped = 0
            self._up()
            return self.frequency_hz
        self._skipped += 1
        if self._skipped >= self._sampling_down_factor:
            self._skipped = 0
            if load < self._down_threshold:
                self._down()
        return self.frequency_hz

    def _up(self) -> None:
        self._requested_hz = min(self._requested_hz + self._step_hz, self._frequencies.highest)
        self.frequency_hz = self._frequencies.at_most(self._requested_hz)

    def _down(self) -> None:
        self._requested_hz = max(self._requested_hz - self._step_hz, self._frequencies.lowest)
        self.frequency_hz = self._frequencies.at_least(self._requested_hz)


class Schedutil:
    """Follows the scheduler's utilisation, an average with a half-life of 32 ms.

    A core that wakes from waiting for storage is boosted: by 1/8 at first, doubled with each
    consecutive such step, halved with each other step, and reset after a tick without a step.
    """

    def __init__(
        self,
        frequencies: Frequencies,
        *,
        tick_s: float = 0.004,
        rate_limit_s: float = 0.001,
        clamp: tuple[float, float] = (0.0, 1.0),
        frequency_invariant: bool = True,
    ) -> None:
        self._frequencies = frequencies
        self._rate_limit_s = rate_limit_s
        self._clamp = clamp
        self._frequency_invariant = frequency_invariant
        self._utilisation = 0.0
        self._boost = 0.0
        self._stepped_s = 0.0
        self._changed_s = float("-inf")
        self.frequency_hz = frequencies.lowest
        self.wait_s = tick_s
        self._tick_s = tick_s

    def step(self, load: float, now_s: float, *, io_wait: bool = False) -> int:
        """Choose the next frequency."""
        self._observe(load, now_s)
        self._boost_for(io_wait, now_s)
        self._stepped_s = now_s
        if now_s - self._changed_s < self._rate_limit_s:
            return self.frequency_hz
        low, high = self._clamp
        utilisation = min(max(self._utilisation, self._boost, low), high)
        invariant = self._frequency_invariant
        reference_hz = self._frequencies.highest if invariant else self.frequency_hz
        chosen = self._frequencies.at_least(int(_HEADROOM * reference_hz * utilisation))
        if chosen != self.frequency_hz:
            self.frequency_hz, self._changed_s = chosen, now_s
        return self.frequency_hz

    def _observe(self, load: float, now_s: float) -> None:
        if self._frequency_invariant:
            load *= self.frequency_hz / self._frequencies.highest
        elapsed_s = max(now_s - self._stepped_s, 0.0)
        kept = 0.5 ** (elapsed_s / _HALF_LIFE_S)
        self._utilisation = kept * self._utilisation + (1.0 - kept) * load

    def _boost_for(self, io_wait: bool, now_s: float) -> None:
        if now_s - self._stepped_s > self._tick_s:
            self._boost = 0.0
        if io_wait:
            self._boost = min(2 * self._boost, 1.0) if self._boost else _FIRST_BOOST
        else:
            self._boost = self._boost / 2 if self._boost > _FIRST_BOOST else 0.0


GOVERNORS: Mapping[str, Callable[[Frequencies], Governor]] = MappingProxyType(
    {
        "performance": lambda frequencies: _Fixed(frequencies.highest),
        "powersave": lambda frequencies: _Fixed(frequencies.lowest),
        "ondemand": Ondemand,
        "conservative": Conservative,
        "interactive": Interactive,
        "interactive-nexus6": lambda frequencies: Interactive(frequencies, NEXUS_6),
        "schedutil": Schedutil,
    }
)


def governor(name: str, frequencies_hz: Iterable[int]) -> Governor:
    """Return a new governor.

    Parameters
    ----------
    name : str
        A key of `GOVERNORS`, such as "ondemand".
    frequencies_hz : iterable of int
        Available frequencies of the clock, in hertz.

    Returns
    -------
    Governor
        The governor in its initial state.

    Raises
    ------
    UnknownName
        If there is no governor of that name.
    """
    if name not in GOVERNORS:
        raise unknown_name("governor", name, GOVERNORS)
    return GOVERNORS[name](Frequencies(frequencies_hz))
