"""The files through which Linux limits a clock, and the one that says what to put back."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

__all__ = ["Policy", "RepairFile", "RepairFileHeld", "find_policies"]


_STEP_KHZ = 100_000  # where a driver has no table: Intel's ratio, and fine enough for AMD's
_CPU = Path("devices/system/cpu")


def find_policies(root: Path) -> list["Policy"]:
    """Return the policies below a sysfs root; older kernels have one folder in each cpu's."""
    folders = sorted((root / _CPU / "cpufreq").glob("policy[0-9]*"), key=_number)
    if not folders:
        old = sorted((root / _CPU).glob("cpu[0-9]*/cpufreq"), key=lambda f: _number(f.parent))
        folders = list({folder.resolve(): folder for folder in reversed(old)}.values())[::-1]
    if not folders:
        raise FileNotFoundError(2, "there is no cpufreq policy", str(root / _CPU / "cpufreq"))
    return [Policy(folder) for folder in folders]


class Policy:
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
        """What it may be limited to: its table, else steps below its fastest; within its limits."""
        low, high = max(self._efficient_khz(), self._read("scaling_min_freq")), self.before_khz
        offered = (khz for khz in self._table_khz() or self._steps_khz() if low <= khz < high)
        return (*(khz * 1000 for khz in offered), high * 1000)

    def limit(self, frequency_hz: int) -> None:
        """Run at this frequency at most."""
        self._write(frequency_hz // 1000)

    def restore(self) -> None:
        """Put the limit back to what it was, if it is another."""
        if self._read("scaling_max_freq") != self.before_khz:
            self._write(self.before_khz)

    def repair(self, before_khz: int) -> bool:
        """Put back a limit that an earlier run left; whether there was anything to do."""
        possible = self.lowest_khz <= before_khz <= self.highest_khz
        if not possible or before_khz <= self.before_khz:
            return False
        self._write(before_khz)
        self.before_khz = before_khz
        return True

    def check_writable(self) -> None:
        """Raise PermissionError unless the limit may be written."""
        os.close(os.open(self._limit, os.O_WRONLY))

    def _table_khz(self) -> list[int]:
        try:
            words = (self._folder / "scaling_available_frequencies").read_text().split()
        except FileNotFoundError:
            return []  # intel_pstate, amd-pstate: any frequency will do
        return sorted(int(word) for word in words if word.isdigit())

    def _steps_khz(self) -> list[int]:
        return list(range(self.highest_khz, self.lowest_khz, -_STEP_KHZ))[::-1]

    def _efficient_khz(self) -> int:
        """Return what amd-pstate says is its slowest efficient clock; others say nothing."""
        try:
            return self._read("amd_pstate_lowest_nonlinear_freq")
        except FileNotFoundError:
            return self.lowest_khz

    def _read(self, name: str) -> int:
        path = self._folder / name
        try:
            return int(path.read_text())
        except ValueError:
            raise OSError(22, "does not hold a number", str(path)) from None

    def _write(self, khz: int) -> None:
        self._limit.write_text(str(khz))


def _number(folder: Path) -> int:
    return int("".join(filter(str.isdigit, folder.name)))


class RepairFileHeld(Exception):
    """Another process holds the clocks."""


class RepairFile:
    """Names of policies and their limits in kHz. The kernel drops the lock of a killed process.

    It is emptied rather than deleted: a process that waited to delete could delete another's.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o600), "r+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise RepairFileHeld(f"another process holds the clocks (it locked {path})") from None

    def leftover(self) -> dict[str, int]:
        """Return what an earlier holder left; what makes no sense is nothing."""
        self._file.seek(0)
        try:
            content = json.load(self._file)
        except ValueError:
            return {}
        if not isinstance(content, dict):
            return {}
        return {name: khz for name, khz in content.items() if type(khz) is int}

    def keep(self, before_khz: Mapping[str, int]) -> None:
        """Write down what must be put back."""
        self._file.seek(0)
        self._file.truncate()
        json.dump(dict(before_khz), self._file)
        self._file.flush()

    def done(self) -> None:
        """Note that nothing has to be put back any more."""
        self._file.truncate(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._file.close()
