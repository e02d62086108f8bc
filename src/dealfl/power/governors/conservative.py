"""The governor `conservative`: small steps up and down."""

from dealfl.power.governors.base import Frequencies

__all__ = ["Conservative"]


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
