"""The energy counters of processor packages (RAPL), Intel's and AMD's, through powercap."""

import re
from dataclasses import dataclass
from pathlib import Path

from dealfl.errors import DealError
from dealfl.power.meters.base import Kind, Reading, Source
from dealfl.power.meters.sysfs import read_integer, readable_integer, readable_text

__all__ = ["RaplMeter"]

# A second colon marks a child zone (core, uncore, dram); intel-rapl-mmio is a second view of the
# same packages. Adding either would count a joule twice.
_ZONE = re.compile(r"intel-rapl:\d+")
_PACKAGE = re.compile(r"package-\d+(-die-\d+)?")


@dataclass(frozen=True, slots=True)
class _Package:
    name: str
    counter: Path
    range_uj: int | None


class RaplMeter:
    """What all processor packages took together; memory, screen and radio are not in it.

    A counter wraps around at `max_energy_range_uj`. Every read notices one wrap, so a long
    measurement has to be read now and then: every 20 minutes does for 262 kJ at 200 W.
    """

    def __init__(self, root: str | Path = "/sys") -> None:
        """Find the packages, or raise the reason why there is nothing to read."""
        self._packages = _packages(Path(root) / "class" / "powercap")
        names = ", ".join(package.name for package in self._packages)
        self._source = Source(Kind.MEASURED, f"RAPL ({names})")
        self.start()

    def start(self) -> None:
        """Begin anew from zero."""
        self._taken_uj = 0
        self._last_uj = [read_integer(package.counter) for package in self._packages]

    def read(self) -> Reading:
        """Return the energy since the start."""
        now_uj = [read_integer(package.counter) for package in self._packages]
        for package, before, after in zip(self._packages, self._last_uj, now_uj, strict=True):
            self._taken_uj += _difference(package, before, after)
        self._last_uj = now_uj
        return Reading(self._taken_uj / 1e6, None, self._source)


def _packages(directory: Path) -> list[_Package]:
    if not directory.is_dir():
        raise DealError(f"there is no {directory}: no RAPL driver, or a container hides it")
    zones = sorted(path for path in directory.iterdir() if _ZONE.fullmatch(path.name))
    named = [(zone, readable_text(zone / "name") or "") for zone in zones]
    packages = [
        _Package(name, zone / "energy_uj", readable_integer(zone / "max_energy_range_uj"))
        for zone, name in named
        if _PACKAGE.fullmatch(name)
    ]
    if not packages:
        found = ", ".join(name or zone.name for zone, name in named) or "nothing"
        raise DealError(f"{directory} has no processor package, only {found}")
    return packages


def _difference(package: _Package, before_uj: int, after_uj: int) -> int:
    if after_uj >= before_uj:
        return after_uj - before_uj
    if package.range_uj is None or package.range_uj < before_uj:
        raise DealError(
            f"{package.counter} went back from {before_uj} to {after_uj}, and "
            f"max_energy_range_uj beside it does not say where it wraps around"
        )
    return after_uj - before_uj + package.range_uj
