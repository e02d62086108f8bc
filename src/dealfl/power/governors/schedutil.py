"""The governor `schedutil`: a quarter above what the scheduler saw used."""

from dealfl.power.governors.base import Frequencies

__all__ = ["Schedutil"]

_HALF_LIFE_S = 0.032
_HEADROOM = 1.25
_FIRST_BOOST = 1 / 8


class Schedutil:
    """Follows the scheduler's utilisation, whose memory halves every 32 ms.

    With `frequency_invariant`, time at half the fastest clock counts as half used. A core that
    wakes from waiting for storage (`io_wait`) is boosted: an eighth at first, twice as much with
    each such step in a row, half as much with each other one, none after a tick without a step.
    `clamp` are the least and the most utilisation that is believed (uclamp).
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
        """Return the frequency to run at from now on."""
        self._observe(load, now_s)
        self._boost_for(io_wait, now_s)
        self._stepped_s = now_s
        if now_s - self._changed_s < self._rate_limit_s:
            return self.frequency_hz
        least, most = self._clamp
        believed = min(max(self._utilisation, self._boost, least), most)
        invariant = self._frequency_invariant
        reference_hz = self._frequencies.highest if invariant else self.frequency_hz
        chosen = self._frequencies.at_least(int(_HEADROOM * reference_hz * believed))
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
