"""The clock of this machine, set by a worker's signals while it trains."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from dealfl.errors import BadInput
from dealfl.power.clocks import Clock
from dealfl.power.cpufreq import cpufreq_clock
from dealfl.power.frequency import END, FrequencyControl
from dealfl.power.hardware import Phone

__all__ = ["Signalled", "machine_clock"]

_log = logging.getLogger("dealfl.power")


class Signalled(Protocol):
    """Anything that takes the signals of a worker: +1 it learns, -1 it forgets, 0 it is done."""

    def signal(self, signal: int, /) -> object:
        """Take a signal.

        Parameters
        ----------
        signal : {1, -1, 0}
            `LEARN`, `FORGET` or `END`.
        """


class _FixedLimit:
    """A clock that is limited to one frequency while its worker trains."""

    def __init__(self, clock: Clock, frequency_hz: int) -> None:
        table = clock.frequencies_hz
        if table and frequency_hz not in table:
            known = ", ".join(f"{hz / 1e6:g}" for hz in table)
            raise BadInput(
                f"this machine has no clock frequency of {frequency_hz / 1e6:g} MHz; it has {known}"
            )
        self._clock, self._frequency_hz = clock, frequency_hz

    def signal(self, signal: int, /) -> None:
        if signal == END:
            self._clock.release()
        else:
            self._clock.set_frequency(self._frequency_hz)


@contextmanager
def machine_clock(
    root: Path, profile: Phone | None = None, frequency_hz: int = 0, repair: Path | None = None
) -> Iterator[Signalled]:
    """Control this machine's clock inside a `with` block, and restore it at the end.

    If the kernel does not allow it, the reason is logged, and signals do nothing. Limits that a
    killed process left behind are restored at the start.

    Parameters
    ----------
    root : Path
        Mount point of sysfs.
    profile : Phone, optional
        Profile of this machine; its efficient frontier is followed. Without one, every frequency
        is a step.
    frequency_hz : int, default 0
        A fixed frequency instead, in hertz; 0 for none.
    repair : Path, optional
        File for the limits to restore; by default in a folder that a reboot clears.

    Yields
    ------
    Signalled
        Takes the signals of workers.

    Raises
    ------
    BadInput
        If this machine does not have the frequency.
    """
    with cpufreq_clock(root, repair) as clock:
        if frequency_hz:
            yield _FixedLimit(clock, frequency_hz)
        elif profile and {point.frequency_hz for point in profile.points} & {*clock.frequencies_hz}:
            yield FrequencyControl.for_phone(profile, clock)
        else:
            if profile and clock.frequencies_hz:
                _log.warning(
                    "no clock frequency of %s's profile is one of this machine: every frequency "
                    "of the machine is a step, and its charge is unknown", profile.name
                )  # fmt: skip
            yield FrequencyControl.for_clock(clock)
