"""The governors of every Linux kernel: performance, powersave, ondemand, conservative."""

from dealfl.power.governors.base import Frequencies

__all__ = ["Conservative", "Ondemand", "Performance", "Powersave"]


class _Fixed:
    def __init__(self, frequency_hz: int) -> None:
        self.frequency_hz = frequency_hz
        self.wait_s = float("inf")

    def step(self, load: float, now_s: float) -> int:  # noqa: ARG002
        """Return the fixed frequency.

        Parameters
        ----------
        load : float
            Ignored.
        now_s : float
            Ignored.

        Returns
        -------
        int
            Frequency, in hertz.
        """
        return self.frequency_hz


class Performance(_Fixed):
    """Always the highest frequency.

    Parameters
    ----------
    frequencies : Frequencies
        Available frequencies.

    References
    ----------
    Linux kernel, drivers/cpufreq/cpufreq_performance.c.
    """

    def __init__(self, frequencies: Frequencies) -> None:
        super().__init__(frequencies.highest)


class Powersave(_Fixed):
    """Always the lowest frequency: the least power, but not the least energy for the work.

    Parameters
    ----------
    frequencies : Frequencies
        Available frequencies.

    References
    ----------
    Linux kernel, drivers/cpufreq/cpufreq_powersave.c.
    """

    def __init__(self, frequencies: Frequencies) -> None:
        super().__init__(frequencies.lowest)


class Ondemand:
    """The highest frequency above a load threshold, a proportional frequency below it.

    Parameters
    ----------
    frequencies : Frequencies
        Available frequencies.
    up_threshold : float, default 0.95
        Load above which the highest frequency is selected.
    sampling_rate_s : float, default 0.01
        Seconds between two steps.
    sampling_down_factor : int, default 1
        Number of samples for which the highest frequency is held.
    from_lowest : bool, default False
        Whether the proportional range starts at the lowest frequency, as since kernel 3.11, or
        at 0, as in kernel 3.10.

    References
    ----------
    Linux kernel, drivers/cpufreq/cpufreq_ondemand.c.
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
        """Choose the next frequency.

        Parameters
        ----------
        load : float
            Busy fraction since the last step, from 0 to 1.
        now_s : float
            Ignored.

        Returns
        -------
        int
            Frequency, in hertz.
        """
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

    Parameters
    ----------
    frequencies : Frequencies
        Available frequencies.
    up_threshold, down_threshold : float, default 0.80 and 0.20
        Load above which the frequency rises, and below which it falls.
    frequency_step : float, default 0.05
        Step, as a fraction of the highest frequency.
    sampling_rate_s : float, default 0.01
        Seconds between two steps.
    sampling_down_factor : int, default 1
        Number of samples before a step down.

    References
    ----------
    Linux kernel, drivers/cpufreq/cpufreq_conservative.c.
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
        """Choose the next frequency.

        Parameters
        ----------
        load : float
            Busy fraction since the last step, from 0 to 1.
        now_s : float
            Ignored.

        Returns
        -------
        int
            Frequency, in hertz.
        """
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
