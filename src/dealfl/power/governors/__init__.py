"""The clock governors of Linux kernels, one step at a time; none of them reads a clock.

>>> from dealfl.power import governor
>>> ondemand = governor("ondemand", [300_000_000, 1_000_000_000, 2_000_000_000])
>>> ondemand.step(load=0.4, now_s=0.01)
1000000000
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from dealfl.errors import unknown_name
from dealfl.power.governors.base import Frequencies, Governor
from dealfl.power.governors.classic import Conservative, Ondemand, Performance, Powersave
from dealfl.power.governors.interactive import NEXUS_6, Interactive, InteractiveTunables
from dealfl.power.governors.schedutil import Schedutil

__all__ = [
    "GOVERNORS",
    "NEXUS_6",
    "Conservative",
    "Frequencies",
    "Governor",
    "Interactive",
    "InteractiveTunables",
    "Ondemand",
    "Performance",
    "Powersave",
    "Schedutil",
    "governor",
]


def _nexus_6(frequencies: Frequencies) -> Governor:
    return Interactive(frequencies, NEXUS_6)


GOVERNORS: Mapping[str, Callable[[Frequencies], Governor]] = MappingProxyType(
    {
        "performance": Performance,
        "powersave": Powersave,
        "ondemand": Ondemand,
        "conservative": Conservative,
        "interactive": Interactive,
        "interactive-nexus6": _nexus_6,
        "schedutil": Schedutil,
    }
)


def governor(name: str, frequencies_hz: Iterable[int]) -> Governor:
    """Return a new governor, by name, for a clock that offers these frequencies."""
    if name not in GOVERNORS:
        raise unknown_name("governor", name, GOVERNORS)
    return GOVERNORS[name](Frequencies(frequencies_hz))
