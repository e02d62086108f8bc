"""The governor `ondemand`: straight to the top when busy, else in proportion to the load."""

from dealfl.power.governors.base import Frequencies

__all__ = ["Ondemand"]


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
