"""RAPL: the energy counters of Intel and AMD processors."""

import re
from dataclasses import dataclass
from pathlib import Path

from dealfl.errors import DealError
from dealfl.power.meters.base import Kind, Reading, Source
from dealfl.power.meters.sysfs_files import read_integer, try_integer, try_text

__all__ = ["RaplMeter"]

# A second colon marks a child zone (core, uncore, dram); intel-rapl-mmio is a second view of the
# same packages. Adding either would count energy twice.
_ZONE = re.compile(r"intel-rapl:\d+")
_PACKAGE = re.compile(r"package-\d+(-die-\d+)?")


@dataclass(frozen=True, slots=True)
class _Package:
    name: str
    counter: Path
    range_uj: int | None


class RaplMeter:
    """The energy of all processor packages together, without memory, screen and radio.

    A counter wraps around at `max_energy_range_uj`. Each read detects one wrap, so read long
    measurements regularly: every 20 minutes is enough for a range of 262 kJ at 200 W.

    Parameters
    ----------
    root : str or Path, default "/sys"
        Mount point of sysfs.

    Raises
    ------
    DealError
        If there is no RAPL counter that this user can read.

    References
    ----------
    Linux kernel, Documentation/power/powercap/powercap.rst.
    """

    def __init__(self, root: str | Path = "/sys") -> None:
        self._packages = _packages(Path(root) / "class" / "powercap")
        names = ", ".join(package.name for package in self._packages)
        self._source = Source(Kind.MEASURED, f"RAPL ({names})")
        self.start()

    def start(self) -> None:
        """Restart from zero."""
        self._taken_uj = 0
        self._last_uj = [read_integer(package.counter) for package in self._packages]

    def read(self) -> Reading:
        """Return the energy since the start.

        Returns
        -------
        Reading
            Energy in joules; no charge.

        Raises
        ------
        DealError
            If a counter cannot be read, or went back by an unknown amount.
        """
        now_uj = [read_integer(package.counter) for package in self._packages]
        for package, before, after in zip(self._packages, self._last_uj, now_uj, strict=True):
            self._taken_uj += _difference(package, before, after)
        self._last_uj = now_uj
        return Reading(self._taken_uj / 1e6, None, self._source)


def _packages(directory: Path) -> list[_Package]:
    if not directory.is_dir():
        raise DealError(f"{directory} does not exist: no RAPL driver, or a container hides it")
    zones = sorted(path for path in directory.iterdir() if _ZONE.fullmatch(path.name))
    named = [(zone, try_text(zone / "name") or "") for zone in zones]
    packages = [
        _Package(name, zone / "energy_uj", try_integer(zone / "max_energy_range_uj"))
        for zone, name in named
        if _PACKAGE.fullmatch(name)
    ]
    if not packages:
        found = ", ".join(name or zone.name for zone, name in named) or "nothing"
        raise DealError(f"{directory} has no processor package; found: {found}")
    return packages


def _difference(package: _Package, before_uj: int, after_uj: int) -> int:
    if after_uj >= before_uj:
        return after_uj - before_uj
    if package.range_uj is None or package.range_uj < before_uj:
        raise DealError(
            f"{package.counter} fell from {before_uj} to {after_uj} µJ, and max_energy_range_uj "
            "in the same folder does not state where it wraps around"
        )
    return after_uj - before_uj + package.range_uj
