"""The clock of this Linux machine: set by a worker's signals, through sysfs, restored at the end.

Only `scaling_max_freq` is written, which works with every driver and governor. The limit never
exceeds its original value and never falls below `scaling_min_freq`. A small repair file holds the
original limits while a process controls the clocks. If that process is killed, the next start
restores them.
"""

import fcntl
import json
import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol, Self

from dealfl.power.frequency import (
    END,
    Frequencies,
    FrequencyControl,
    FrequencyLimit,
    NoLimit,
    no_such_frequency,
)
from dealfl.power.profiles import Phone

_STEP_KHZ = 100_000  # for drivers without a table: Intel's ratio, and fine enough for AMD
_CPU = Path("devices/system/cpu")
_log = logging.getLogger("dealfl.power")


def _find_policies(root: Path) -> list["_Policy"]:
    """Return the policies below a sysfs root; older kernels have one folder for each CPU."""
    folders = sorted((root / _CPU / "cpufreq").glob("policy[0-9]*"), key=_number)
    if not folders:
        old = sorted((root / _CPU).glob("cpu[0-9]*/cpufreq"), key=lambda f: _number(f.parent))
        folders = list({folder.resolve(): folder for folder in reversed(old)}.values())[::-1]
    if not folders:
        raise FileNotFoundError(2, "no cpufreq policy found", str(root / _CPU / "cpufreq"))
    return [_Policy(folder) for folder in folders]


class _Policy:
    """The limit of one clock domain, in a folder like `cpufreq/policy0`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._limit = folder / "scaling_max_freq"
        self.name = folder.name if folder.name != "cpufreq" else folder.parent.name
        self.lowest_khz = self._read("cpuinfo_min_freq")
        self.highest_khz = self._read("cpuinfo_max_freq")
        self.before_khz = self._read("scaling_max_freq")

    @property
    def frequencies_hz(self) -> tuple[int, ...]:
        """The possible limits: the driver's table, or steps of 100 MHz below the maximum."""
        lowest_khz = max(self._efficient_khz(), self._read("scaling_min_freq"))
        table_khz = self._table_khz() or self._steps_khz()
        offered_khz = [khz for khz in table_khz if lowest_khz <= khz < self.before_khz]
        return tuple(khz * 1000 for khz in [*offered_khz, self.before_khz])

    def limit(self, frequency_hz: int) -> None:
        """Limit the clock to a frequency."""
        self._write(frequency_hz // 1000)

    def restore(self) -> None:
        """Restore the original limit if it has changed."""
        if self._read("scaling_max_freq") != self.before_khz:
            self._write(self.before_khz)

    def repair(self, before_khz: int) -> bool:
        """Restore the limit that an earlier run left behind; return whether it was changed."""
        possible = self.lowest_khz <= before_khz <= self.highest_khz
        if not possible or before_khz <= self.before_khz:
            return False
        self._write(before_khz)
        self.before_khz = before_khz
        return True

    def check_writable(self) -> None:
        """Raise PermissionError if the limit cannot be written."""
        os.close(os.open(self._limit, os.O_WRONLY))

    def _table_khz(self) -> list[int]:
        try:
            words = (self._folder / "scaling_available_frequencies").read_text().split()
        except FileNotFoundError:
            return []  # intel_pstate, amd-pstate: any frequency is valid
        return sorted(int(word) for word in words if word.isdigit())

    def _steps_khz(self) -> list[int]:
        return list(range(self.highest_khz, self.lowest_khz, -_STEP_KHZ))[::-1]

    def _efficient_khz(self) -> int:
        """Return the slowest efficient frequency; only amd-pstate reports one."""
        try:
            return self._read("amd_pstate_lowest_nonlinear_freq")
        except FileNotFoundError:
            return self.lowest_khz

    def _read(self, name: str) -> int:
        path = self._folder / name
        try:
            return int(path.read_text())
        except ValueError:
            raise OSError(22, "does not contain a number", str(path)) from None

    def _write(self, khz: int) -> None:
        self._limit.write_text(str(khz))


def _number(folder: Path) -> int:
    return int("".join(filter(str.isdigit, folder.name)))


class _RepairFileHeld(Exception):
    """Another process controls the clocks."""


class _RepairFile:
    """A locked file with the original limits in kHz by policy name.

    The kernel releases the lock of a killed process. The file is emptied, not deleted: a delayed
    deletion could remove the file of another process.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o600), "r+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise _RepairFileHeld(
                f"another process controls the clocks (it locked {path})"
            ) from None

    def leftover(self) -> dict[str, int]:
        """Return the limits that an earlier process left; ignore invalid content."""
        self._file.seek(0)
        try:
            content = json.load(self._file)
        except ValueError:
            return {}
        if not isinstance(content, dict):
            return {}
        return {name: khz for name, khz in content.items() if type(khz) is int}

    def keep(self, before_khz: Mapping[str, int]) -> None:
        """Write the limits to restore."""
        self._file.seek(0)
        self._file.truncate()
        json.dump(dict(before_khz), self._file)
        self._file.flush()

    def done(self) -> None:
        """Empty the file: nothing needs to be restored."""
        self._file.truncate(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._file.close()


def default_repair_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the repair file, in a directory that a reboot clears, like the limits."""
    return Path(environment.get("XDG_RUNTIME_DIR") or "/run") / "dealfl-cpufreq.json"


class CpufreqLimit:
    """The limit of a Linux machine; `cpufreq_limit` creates it."""

    def __init__(self, policies: list[_Policy]) -> None:
        self._policies = policies
        self._tables = [Frequencies(policy.frequencies_hz) for policy in policies]
        self._works = True
        self.frequencies_hz = tuple(sorted({hz for table in self._tables for hz in table}))

    def set(self, frequency_hz: int) -> None:
        """Limit each policy to its highest frequency that is not above, or to its lowest.

        If a limit cannot be written, control stops and a warning is logged.
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
        """Restore every limit and ignore all later calls."""
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
def cpufreq_limit(root: Path, repair: Path | None) -> Iterator[FrequencyLimit]:
    """Limit this machine inside a `with` block and restore it at the end.

    If no limit can be set, one warning is logged and a `NoLimit` is used.
    """
    with ExitStack() as stack:
        try:
            policies = _find_policies(root)
            file = stack.enter_context(_RepairFile(repair or default_repair_path()))
            limit = _open(policies, file)
        except (OSError, _RepairFileHeld) as error:
            _log.warning("clock control is off: %s; work continues without it", _error_text(error))
            yield NoLimit()
            return
        stack.enter_context(_stop_on_sigterm(limit))
        try:
            yield limit
        finally:
            if limit.stop():
                file.done()


def _open(policies: list[_Policy], file: _RepairFile) -> CpufreqLimit:
    for policy in policies:
        policy.check_writable()
    _restore_leftover(policies, file.leftover())
    limit = CpufreqLimit(policies)
    file.keep({policy.name: policy.before_khz for policy in policies})
    return limit


def _restore_leftover(policies: list[_Policy], leftover: Mapping[str, int]) -> None:
    for policy in policies:
        before_khz = leftover.get(policy.name, 0)
        if policy.repair(before_khz):
            _log.warning(
                "restored %s to %d kHz: an earlier run left it limited", policy.name, before_khz
            )


@contextmanager
def _stop_on_sigterm(limit: CpufreqLimit) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals; the repair file still protects
        return
    before = signal.getsignal(signal.SIGTERM)

    def stop(number: int, frame: FrameType | None) -> None:
        limit.stop()
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


class Signalled(Protocol):
    """Anything that takes the signals of a worker: +1 it learns, -1 it forgets, 0 it is done."""

    def signal(self, signal: int, /) -> object:
        """Take a signal."""


class _FixedClock:
    """A clock that is limited to one frequency while its worker trains."""

    def __init__(self, limit: FrequencyLimit, frequency_hz: int) -> None:
        table = limit.frequencies_hz
        if table and frequency_hz not in table:
            raise no_such_frequency("this machine", frequency_hz, table)
        self._limit = limit
        self._frequency_hz = frequency_hz

    def signal(self, signal: int, /) -> None:
        if signal == END:
            self._limit.release()
        else:
            self._limit.set(self._frequency_hz)


@contextmanager
def machine_clock(
    root: Path, profile: Phone | None = None, frequency_hz: int = 0, repair: Path | None = None
) -> Iterator[Signalled]:
    """Control this machine's clock inside a `with` block, and restore it at the end.

    The clock follows the efficient frontier of the profile, or has a fixed frequency. If the kernel
    does not allow it, the reason is logged, and signals do nothing. Limits that a killed process
    left behind are restored at the start.
    """
    with cpufreq_limit(root, repair) as limit:
        if frequency_hz:
            yield _FixedClock(limit, frequency_hz)
            return
        offered = limit.frequencies_hz
        if profile and not {point.frequency_hz for point in profile.points}.intersection(offered):
            if offered:
                _log.warning(
                    "no clock frequency of %s's profile is one of this machine: every frequency "
                    "of the machine is a step, and its charge is unknown",
                    profile.name,
                )
            profile = None
        yield FrequencyControl(profile, limit)
