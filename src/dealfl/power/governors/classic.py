"""The governors of every Linux kernel: performance, powersave, ondemand, conservative."""

from dealfl.power.governors.base import Frequencies

__all__ = ["Conservative", "Ondemand", "Performance", "Powersave"]


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


class Ondemand:
    """Above `up_threshold` the fastest clock, held for `sampling_down_factor` samples.

    Below, the frequency is in proportion: to the fastest as in kernel 3.10, or, with
    `from_lowest`, between the slowest and the fastest as since 3.11.
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
        """Return the frequency to run at from now on."""
        highest = self._frequencies.highest
        if load > self._up_threshold:
            self.frequency_hz, self.wait_s = highest, self._held_s
            return highest
        wanted_hz = self._floor_hz + load * (highest - self._floor_hz)
        self.frequency_hz = self._frequencies.at_least(int(wanted_hz))
        self.wait_s = self._sampling_rate_s
        return self.frequency_hz


class Conservative:
    """Asks for 5 % of the fastest clock more when busy, 5 % less when idle.

    What it asks for moves smoothly; what it gets is the nearest frequency the clock has, rounded
    against the direction of the move. `sampling_down_factor` samples pass before a step down.
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
        """Return the frequency to run at from now on."""
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
