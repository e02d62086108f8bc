"""The sysfs files that limit a clock on Linux, and the repair file with the original limits."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

__all__ = ["Policy", "RepairFile", "RepairFileHeld", "find_policies"]


_STEP_KHZ = 100_000  # for drivers without a table: Intel's ratio, and fine enough for AMD
_CPU = Path("devices/system/cpu")


def find_policies(root: Path) -> list["Policy"]:
    """Return the policies below a sysfs root; older kernels have one folder for each CPU."""
    folders = sorted((root / _CPU / "cpufreq").glob("policy[0-9]*"), key=_number)
    if not folders:
        old = sorted((root / _CPU).glob("cpu[0-9]*/cpufreq"), key=lambda f: _number(f.parent))
        folders = list({folder.resolve(): folder for folder in reversed(old)}.values())[::-1]
    if not folders:
        raise FileNotFoundError(2, "no cpufreq policy found", str(root / _CPU / "cpufreq"))
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
        """The possible limits: the driver's table, or steps of 100 MHz below the maximum."""
        low, high = max(self._efficient_khz(), self._read("scaling_min_freq")), self.before_khz
        offered = (khz for khz in self._table_khz() or self._steps_khz() if low <= khz < high)
        return (*(khz * 1000 for khz in offered), high * 1000)

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


class RepairFileHeld(Exception):
    """Another process controls the clocks."""


class RepairFile:
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
            raise RepairFileHeld(
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
