"""Clocks with a frequency limit: simulated, of this Linux machine, or a stub.

On Linux only `scaling_max_freq` is written, which works with every driver and governor. The limit
never exceeds its original value and never falls below `scaling_min_freq`. A small repair file
holds the original limits while a process controls the clocks. If that process is killed, the next
start restores them.
"""

import logging
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol

from dealfl.power.cpufreq_files import Policy, RepairFile, RepairFileHeld, find_policies
from dealfl.power.governors import Frequencies

__all__ = [
    "Clock",
    "CpufreqClock",
    "NoClock",
    "SimulatedClock",
    "cpufreq_clock",
    "default_repair_path",
]


class Clock(Protocol):
    """A clock whose maximum frequency can be set."""

    @property
    def frequencies_hz(self) -> tuple[int, ...]:
        """The available limits in hertz, slowest first; empty if the clock cannot be set."""

    def set_frequency(self, frequency_hz: int) -> None:
        """Limit the clock to a frequency.

        Parameters
        ----------
        frequency_hz : int
            Maximum frequency, in hertz.
        """

    def release(self) -> None:
        """Remove the limit."""


class SimulatedClock:
    """A clock that records its current frequency and the number of changes.

    Parameters
    ----------
    frequencies_hz : iterable of int
        Available frequencies, in hertz. The clock starts at the highest.

    Examples
    --------
    >>> clock = SimulatedClock([10**9, 2 * 10**9])
    >>> clock.set_frequency(10**9)
    >>> clock.frequency_hz, clock.changes
    (1000000000, 1)
    """

    def __init__(self, frequencies_hz: Iterable[int]) -> None:
        self.frequencies_hz = tuple(sorted(set(frequencies_hz)))
        self.frequency_hz = self.frequencies_hz[-1]
        self.changes = 0

    def set_frequency(self, frequency_hz: int) -> None:
        """Run at a frequency.

        Parameters
        ----------
        frequency_hz : int
            New frequency, in hertz.
        """
        self.frequency_hz = frequency_hz
        self.changes += 1

    def release(self) -> None:
        """Run at the highest frequency."""
        self.set_frequency(self.frequencies_hz[-1])


class NoClock:
    """The clock of a device that does not allow frequency control; every call does nothing."""

    frequencies_hz: tuple[int, ...] = ()

    def set_frequency(self, frequency_hz: int) -> None:
        """Do nothing.

        Parameters
        ----------
        frequency_hz : int
            Ignored.
        """

    def release(self) -> None:
        """Do nothing."""


_SYSFS = Path("/sys")
_log = logging.getLogger("dealfl.power")


def default_repair_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the repair file, in a directory that a reboot clears, like the limits."""
    return Path(environment.get("XDG_RUNTIME_DIR") or "/run") / "dealfl-cpufreq.json"


class CpufreqClock:
    """The clock of a Linux machine; `cpufreq_clock` creates it.

    Parameters
    ----------
    policies : list of Policy
        Clock domains to limit.
    """

    def __init__(self, policies: list[Policy]) -> None:
        self._policies = policies
        self._tables = [Frequencies(policy.frequencies_hz) for policy in policies]
        self._works = True
        union = {hz for table in self._tables for hz in table}
        self.frequencies_hz = tuple(sorted(union))

    def set_frequency(self, frequency_hz: int) -> None:
        """Limit each policy to its highest frequency that is not above, or to its lowest.

        If a limit cannot be written, control stops and a warning is logged.

        Parameters
        ----------
        frequency_hz : int
            Maximum frequency, in hertz.
        """
        if not self._works:
            return
        try:
            for policy, table in zip(self._policies, self._tables, strict=True):
                policy.limit(table.at_most(frequency_hz))
        except OSError as error:
            self.stop()
            _log.warning("clock control stopped: %s; work continues without it", _error_text(error))

    def release(self) -> None:
        """Restore every limit to its original value."""
        self._restore()

    def stop(self) -> bool:
        """Restore every limit and ignore all later calls.

        Returns
        -------
        bool
            Whether every limit was restored.
        """
        self._works = False
        return self._restore()

    def _restore(self) -> bool:
        failed = 0
        for policy in self._policies:
            try:
                policy.restore()
            except OSError:  # restore the other policies even so
                failed += 1
        return not failed


@contextmanager
def cpufreq_clock(root: Path = _SYSFS, repair: Path | None = None) -> Iterator[Clock]:
    """Control this machine's clock inside a `with` block and restore it at the end.

    If the clock cannot be set, one warning is logged and a `NoClock` is used.

    Parameters
    ----------
    root : Path, default /sys
        Mount point of sysfs.
    repair : Path, optional
        Path of the repair file; by default in `$XDG_RUNTIME_DIR` or `/run`.

    Yields
    ------
    Clock
        The machine's clock, or a `NoClock`.

    References
    ----------
    Linux kernel, Documentation/admin-guide/pm/cpufreq.rst.
    """
    with ExitStack() as stack:
        try:
            policies = find_policies(root)
            file = stack.enter_context(RepairFile(repair or default_repair_path()))
            clock = _open(policies, file)
        except (OSError, RepairFileHeld) as error:
            _log.warning("clock control is off: %s; work continues without it", _error_text(error))
            yield NoClock()
            return
        stack.enter_context(_stop_on_sigterm(clock))
        try:
            yield clock
        finally:
            if clock.stop():
                file.done()


def _open(policies: list[Policy], file: RepairFile) -> CpufreqClock:
    for policy in policies:
        policy.check_writable()
    _restore_leftover(policies, file.leftover())
    clock = CpufreqClock(policies)
    file.keep({policy.name: policy.before_khz for policy in policies})
    return clock


def _restore_leftover(policies: list[Policy], leftover: Mapping[str, int]) -> None:
    for policy in policies:
        before_khz = leftover.get(policy.name, 0)
        if policy.repair(before_khz):
            _log.warning(
                "restored %s to %d kHz: an earlier run left it limited", policy.name, before_khz
            )


@contextmanager
def _stop_on_sigterm(clock: CpufreqClock) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals; the repair file still protects
        return
    before = signal.getsignal(signal.SIGTERM)

    def stop(number: int, frame: FrameType | None) -> None:
        clock.stop()
        if callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


def _error_text(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return f"no permission to write {error.filename} (run as root)"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
