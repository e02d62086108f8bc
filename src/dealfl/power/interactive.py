"""Android's governor `interactive` (cpufreq_interactive.c), and its settings on the Nexus 6."""

from bisect import bisect_right
from dataclasses import dataclass, field

from dealfl.errors import BadInput
from dealfl.power.clocks import Frequencies

__all__ = ["NEXUS_6", "Interactive", "InteractiveTunables", "Steps"]


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
        words = text.replace(":", " ").split()
        if len(words) % 2 == 0 or not all(word.isdigit() for word in words):
            raise BadInput(f"steps are {text!r}; write a value, then kHz:value for each change")
        starts = (0, *(int(word) * 1000 for word in words[1::2]))
        if list(starts) != sorted(set(starts)):
            raise BadInput(f"steps are {text!r}; frequencies must rise")
        return cls(starts, tuple(round(int(word) * unit, 9) for word in words[0::2]))

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
    boostpulse_s: float = 0.080

    def __post_init__(self) -> None:
        """Reject target loads that no frequency can meet."""
        if min(self.target_loads.values) <= 0:
            raise BadInput(f"target_loads are {self.target_loads.values}; each must be above 0")


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


class Interactive:
    """Jumps to an intermediate frequency when busy, and rises and falls from there with delays."""

    def __init__(
        self, frequencies: Frequencies, tunables: InteractiveTunables | None = None
    ) -> None:
        self._frequencies = frequencies
        self._tunables = tunables or InteractiveTunables()
        hispeed_hz = self._tunables.hispeed_hz or frequencies.highest
        self._hispeed_hz = min(hispeed_hz, frequencies.highest)
        self.frequency_hz = frequencies.lowest
        self.wait_s = self._tunables.timer_rate_s
        self._floor_hz = frequencies.lowest
        self._floor_since_s = self._hispeed_since_s = self._max_since_s = float("-inf")
        self._boosted_until_s = float("-inf")

    def boost(self, now_s: float) -> None:
        """Hold at least the intermediate frequency for a while, as after a touch of the screen."""
        self._boosted_until_s = now_s + self._tunables.boostpulse_s

    def step(self, load: float, now_s: float) -> int:
        """Choose the next frequency."""
        boosted = now_s < self._boosted_until_s
        wanted = self._wanted(load, boosted)
        if self._rises_too_early(wanted, load, now_s):
            return self.frequency_hz
        self._hispeed_since_s = now_s
        wanted = self._frequencies.at_least(wanted)
        if self._falls_too_early(wanted, now_s):
            return self.frequency_hz
        if not boosted or wanted > self._hispeed_hz:
            self._floor_hz, self._floor_since_s = wanted, now_s
        if wanted == self._frequencies.highest:
            self._max_since_s = now_s
        self.frequency_hz = wanted
        return wanted

    def _wanted(self, load: float, boosted: bool) -> int:
        if load < self._tunables.go_hispeed_load and not boosted:
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
        left_max_s, on_floor_s = now_s - self._max_since_s, now_s - self._floor_since_s
        tunables = self._tunables
        if wanted < self.frequency_hz and _less(left_max_s, tunables.max_freq_hysteresis_s):
            return True
        return wanted < self._floor_hz and _less(on_floor_s, tunables.min_sample_time_s)

    def frequency_for(self, load: float) -> int:
        """Return the lowest frequency at which the load meets its target.

        The target depends on the frequency, so the search narrows an interval between a frequency
        that is too low and one that is high enough.
        """
        used_hz = load * self.frequency_hz
        too_low, enough = 0, None
        chosen, before = self.frequency_hz, -1
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
