"""The governor `schedutil`: 1.25 times the utilisation that the scheduler measures."""

from dealfl.power.governors.base import Frequencies

__all__ = ["Schedutil"]

_HALF_LIFE_S = 0.032
_HEADROOM = 1.25
_FIRST_BOOST = 1 / 8


class Schedutil:
    """Follows the scheduler's utilisation, an average with a half-life of 32 ms.

    A core that wakes from waiting for storage is boosted: by 1/8 at first, doubled with each
    consecutive such step, halved with each other step, and reset after a tick without a step.

    Parameters
    ----------
    frequencies : Frequencies
        Available frequencies.
    tick_s : float, default 0.004
        Seconds between two steps.
    rate_limit_s : float, default 0.001
        Minimum time between two changes, in seconds.
    clamp : tuple of float, default (0, 1)
        Minimum and maximum of the utilisation (uclamp).
    frequency_invariant : bool, default True
        Whether busy time counts in proportion to the frequency.

    References
    ----------
    Linux kernel, kernel/sched/cpufreq_schedutil.c and kernel/sched/pelt.c.
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
        """Choose the next frequency.

        Parameters
        ----------
        load : float
            Busy fraction since the last step, from 0 to 1.
        now_s : float
            Current time, in seconds.
        io_wait : bool, default False
            Whether the core wakes from waiting for storage.

        Returns
        -------
        int
            Frequency, in hertz.
        """
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
