"""Clocks whose speed can be limited: simulated, of this Linux machine, or none at all.

Of a Linux machine all that is written is `scaling_max_freq`, which works with every driver and
governor. It never goes above what it was, nor below `scaling_min_freq`. What it was is kept in a
small repair file while we hold the clocks: if we are killed, the next start puts it back.
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
    """A clock whose highest frequency can be chosen."""

    @property
    def frequencies_hz(self) -> tuple[int, ...]:
        """The frequencies it can be limited to, slowest first; none if it is not ours to set."""

    def set_frequency(self, frequency_hz: int) -> None:
        """Run at this frequency at most."""

    def release(self) -> None:
        """Run as if nobody had set anything."""


class SimulatedClock:
    """A clock that remembers what it was told.

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
        """Run at this frequency."""
        self.frequency_hz = frequency_hz
        self.changes += 1

    def release(self) -> None:
        """Run at the highest frequency."""
        self.set_frequency(self.frequencies_hz[-1])


class NoClock:
    """The clock of a device that does not let us set any: it takes every call and does nothing."""

    frequencies_hz: tuple[int, ...] = ()

    def set_frequency(self, frequency_hz: int) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Do nothing."""


_SYSFS = Path("/sys")
_log = logging.getLogger("dealfl.power")


def default_repair_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the repair file lies: a directory that, like the limits, ends with a reboot."""
    return Path(environment.get("XDG_RUNTIME_DIR") or "/run") / "dealfl-cpufreq.json"


class CpufreqClock:
    """Limits every policy (clock domain) it is given; made by `cpufreq_clock`."""

    def __init__(self, policies: list[Policy]) -> None:
        self._policies = policies
        self._tables = [Frequencies(policy.frequencies_hz) for policy in policies]
        self._works = True
        union = {hz for table in self._tables for hz in table}
        self.frequencies_hz = tuple(sorted(union))

    def set_frequency(self, frequency_hz: int) -> None:
        """Limit each policy to its highest frequency that is not above, or to its lowest."""
        if not self._works:
            return
        try:
            for policy, table in zip(self._policies, self._tables, strict=True):
                policy.limit(table.at_most(frequency_hz))
        except OSError as error:
            self.stop()
            _log.warning("clock control ends: %s; work goes on without it", _told(error))

    def release(self) -> None:
        """Put every limit back to what it was."""
        self._released()

    def stop(self) -> bool:
        """Put every limit back and leave the clocks alone from now on; whether all are back."""
        self._works = False
        return self._released()

    def _released(self) -> bool:
        failed = 0
        for policy in self._policies:
            try:
                policy.restore()
            except OSError:  # the others are put back all the same
                failed += 1
        return not failed


@contextmanager
def cpufreq_clock(root: Path = _SYSFS, repair: Path | None = None) -> Iterator[Clock]:
    """Give the machine's clock, to be put back when the block ends, however it ends.

    Where it may not be set, one warning is logged and the clock given does nothing.
    """
    with ExitStack() as stack:
        try:
            policies = find_policies(root)
            file = stack.enter_context(RepairFile(repair or default_repair_path()))
            clock = _opened(policies, file)
        except (OSError, RepairFileHeld) as error:
            _log.warning("the clock is not controlled: %s; work goes on without it", _told(error))
            yield NoClock()
            return
        stack.enter_context(_stopped_by_sigterm(clock))
        try:
            yield clock
        finally:
            if clock.stop():
                file.done()


def _opened(policies: list[Policy], file: RepairFile) -> CpufreqClock:
    for policy in policies:
        policy.check_writable()
    _put_back(policies, file.leftover())
    clock = CpufreqClock(policies)
    file.keep({policy.name: policy.before_khz for policy in policies})
    return clock


def _put_back(policies: list[Policy], leftover: Mapping[str, int]) -> None:
    for policy in policies:
        before_khz = leftover.get(policy.name, 0)
        if policy.repair(before_khz):
            _log.warning("put %s back to %d kHz, left limited by a run", policy.name, before_khz)


@contextmanager
def _stopped_by_sigterm(clock: CpufreqClock) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may take signals; the repair file still stands
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


def _told(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return f"no permission to write {error.filename} (root may)"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
