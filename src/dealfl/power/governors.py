"""The clock governors of Linux kernels as state machines; time is an argument of each step.

>>> from dealfl.power import governor
>>> ondemand = governor("ondemand", [300_000_000, 1_000_000_000, 2_000_000_000])
>>> ondemand.step(load=0.4, now_s=0.01)
1000000000
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from dealfl.errors import unknown_name
from dealfl.power.frequency import Frequencies

_SAMPLING_RATE_S = 0.01  # ondemand and conservative
_ONDEMAND_LOAD = 0.95
_BUSY_LOAD = 0.80  # conservative
_IDLE_LOAD = 0.20
_FREQUENCY_STEP = 0.05
_TICK_S = 0.004  # schedutil
_RATE_LIMIT_S = 0.001
_HALF_LIFE_S = 0.032
_HEADROOM = 1.25


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


class _FromLoad:
    """A choice that starts from the lowest frequency and is made again after each `wait_s`."""

    wait_s = _SAMPLING_RATE_S

    def __init__(self, frequencies: Frequencies) -> None:
        self._frequencies = frequencies
        self.frequency_hz = frequencies.lowest


class Ondemand(_FromLoad):
    """The highest frequency above a load threshold, a proportional frequency below it.

    As in drivers/cpufreq/cpufreq_ondemand.c of Linux 3.10.
    """

    def step(self, load: float, now_s: float) -> int:  # noqa: ARG002
        """Choose the next frequency."""
        highest = self._frequencies.highest
        if load > _ONDEMAND_LOAD:
            self.frequency_hz = highest
        else:
            self.frequency_hz = self._frequencies.at_least(int(load * highest))
        return self.frequency_hz


class Conservative(_FromLoad):
    """Raises the frequency by a fixed step when busy and lowers it by the same step when idle.

    The requested frequency changes by the step. The selected frequency is the nearest available
    one, rounded against the direction of the change.
    """

    def __init__(self, frequencies: Frequencies) -> None:
        super().__init__(frequencies)
        self._step_hz = int(_FREQUENCY_STEP * frequencies.highest)
        self._requested_hz = frequencies.lowest

    def step(self, load: float, now_s: float) -> int:  # noqa: ARG002
        """Choose the next frequency."""
        table = self._frequencies
        if load > _BUSY_LOAD:
            self._requested_hz = min(self._requested_hz + self._step_hz, table.highest)
            self.frequency_hz = table.at_most(self._requested_hz)
        elif load < _IDLE_LOAD:
            self._requested_hz = max(self._requested_hz - self._step_hz, table.lowest)
            self.frequency_hz = table.at_least(self._requested_hz)
        return self.frequency_hz


class Schedutil(_FromLoad):
    """Follows the scheduler's utilisation, an average with a half-life of 32 ms."""

    wait_s = _TICK_S

    def __init__(self, frequencies: Frequencies) -> None:
        super().__init__(frequencies)
        self._utilisation = self._stepped_s = 0.0
        self._changed_s = float("-inf")

    def step(self, load: float, now_s: float) -> int:
        """Choose the next frequency."""
        highest = self._frequencies.highest
        load *= self.frequency_hz / highest
        elapsed_s = max(now_s - self._stepped_s, 0.0)
        kept = 0.5 ** (elapsed_s / _HALF_LIFE_S)
        self._utilisation = kept * self._utilisation + (1.0 - kept) * load
        self._stepped_s = now_s
        if now_s - self._changed_s < _RATE_LIMIT_S:
            return self.frequency_hz
        wanted_hz = int(_HEADROOM * highest * min(self._utilisation, 1.0))
        chosen = self._frequencies.at_least(wanted_hz)
        if chosen != self.frequency_hz:
            self.frequency_hz = chosen
            self._changed_s = now_s
        return self.frequency_hz


@dataclass(frozen=True, slots=True)
class Steps:
    """A step function of the frequency: `values[i]` applies to frequencies ≥ `starts_hz[i]`."""

    starts_hz: tuple[int, ...]
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str, unit: float = 1.0) -> "Steps":
        """Parse the format of sysfs: a value, then pairs of kHz:value.

        >>> Steps.parse("20000 883200:40000", unit=1e-6).at(900_000_000)
        0.04
        """
        numbers = [int(word) for word in text.replace(":", " ").split()]
        starts_hz = (0, *(khz * 1000 for khz in numbers[1::2]))
        return cls(starts_hz, tuple(round(value * unit, 9) for value in numbers[0::2]))

    def at(self, frequency_hz: int) -> float:
        """Return the value at a frequency."""
        return self.values[bisect_right(self.starts_hz, frequency_hz) - 1]


@dataclass(frozen=True, slots=True)
class InteractiveTunables:
    """The settings of `Interactive`, as in sysfs."""

    timer_rate_s: float = 0.020
    go_hispeed_load: float = 0.99
    hispeed_hz: int | None = None  # the fastest
    target_loads: Steps = field(default_factory=lambda: Steps.parse("90", unit=0.01))
    above_hispeed_delay_s: Steps = field(default_factory=lambda: Steps.parse("20000", unit=1e-6))
    min_sample_time_s: float = 0.080
    max_freq_hysteresis_s: float = 0.0


NEXUS_6 = InteractiveTunables(
    hispeed_hz=1_190_400_000,
    target_loads=Steps.parse(
        "95 422400:58 652800:81 729600:74 883200:83 960000:8 1036800:6 1190400:85 2496000:87",
        unit=0.01,
    ),
    above_hispeed_delay_s=Steps.parse("20000 883200:40000 1190400:80000 2496000:100000", unit=1e-6),
    min_sample_time_s=0.060,
    max_freq_hysteresis_s=0.080,
)


class Interactive(_FromLoad):
    """Jumps to an intermediate frequency when busy, and rises and falls from there with delays.

    As in cpufreq_interactive.c of Android's kernels.
    """

    def __init__(
        self, frequencies: Frequencies, tunables: InteractiveTunables | None = None
    ) -> None:
        super().__init__(frequencies)
        self._tunables = tunables or InteractiveTunables()
        hispeed_hz = self._tunables.hispeed_hz or frequencies.highest
        self._hispeed_hz = min(hispeed_hz, frequencies.highest)
        self.wait_s = self._tunables.timer_rate_s
        self._floor_hz = frequencies.lowest
        self._floor_since_s = self._hispeed_since_s = self._max_since_s = float("-inf")

    def step(self, load: float, now_s: float) -> int:
        """Choose the next frequency."""
        wanted = self._wanted(load)
        if self._rises_too_early(wanted, load, now_s):
            return self.frequency_hz
        self._hispeed_since_s = now_s
        wanted = self._frequencies.at_least(wanted)
        if self._falls_too_early(wanted, now_s):
            return self.frequency_hz
        self._floor_hz = wanted
        self._floor_since_s = now_s
        if wanted == self._frequencies.highest:
            self._max_since_s = now_s
        self.frequency_hz = wanted
        return wanted

    def _wanted(self, load: float) -> int:
        if load < self._tunables.go_hispeed_load:
            return self.frequency_for(load)
        if self.frequency_hz < self._hispeed_hz and load <= 1.0:
            return self._hispeed_hz
        return max(self.frequency_for(load), self._hispeed_hz)

    def _rises_too_early(self, wanted: int, load: float, now_s: float) -> bool:
        present = self.frequency_hz
        delay_s = self._tunables.above_hispeed_delay_s.at(present)
        rises = load <= 1.0 and present >= self._hispeed_hz and wanted > present
        return rises and _less(now_s - self._hispeed_since_s, delay_s)

    def _falls_too_early(self, wanted: int, now_s: float) -> bool:
        tunables = self._tunables
        left_max_s = now_s - self._max_since_s
        on_floor_s = now_s - self._floor_since_s
        if wanted < self.frequency_hz and _less(left_max_s, tunables.max_freq_hysteresis_s):
            return True
        return wanted < self._floor_hz and _less(on_floor_s, tunables.min_sample_time_s)

    def frequency_for(self, load: float) -> int:
        """Return the lowest frequency at which the load meets its target.

        The target depends on the frequency, so the search narrows an interval between a frequency
        that is too low and one that is high enough.
        """
        used_hz = load * self.frequency_hz
        too_low = 0
        enough = None
        chosen = self.frequency_hz
        before = -1
        while chosen != before:
            before = chosen
            target_load = self._tunables.target_loads.at(before)
            chosen = self._frequencies.at_least(int(used_hz / target_load))
            if chosen > before:
                too_low = before
                chosen = self._below(chosen, enough, too_low)
                if chosen == enough:
                    break
            elif chosen < before:
                enough = before
                chosen = chosen if chosen > too_low else self._frequencies.at_least(too_low + 1)
                if chosen == enough:
                    break
        return chosen

    def _below(self, chosen: int, enough: int | None, too_low: int) -> int:
        if enough is None or chosen < enough:
            return chosen
        between = self._frequencies.at_most(enough - 1)
        return enough if between == too_low else between


def _less(elapsed_s: float, limit_s: float) -> bool:
    return elapsed_s < limit_s - 1e-9  # 0.18 - 0.1 < 0.08 in floating point; the kernel counts µs


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
    """Return a new governor."""
    if name not in GOVERNORS:
        raise unknown_name("governor", name, GOVERNORS)
    return GOVERNORS[name](Frequencies(frequencies_hz))
