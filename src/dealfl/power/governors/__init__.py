"""The clock governors of Linux kernels as state machines; time is an argument of each step.

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
    """Return a new governor.

    Parameters
    ----------
    name : str
        A key of `GOVERNORS`, such as "ondemand".
    frequencies_hz : iterable of int
        Available frequencies of the clock, in hertz.

    Returns
    -------
    Governor
        The governor in its initial state.

    Raises
    ------
    UnknownName
        If there is no governor of that name.
    """
    if name not in GOVERNORS:
        raise unknown_name("governor", name, GOVERNORS)
    return GOVERNORS[name](Frequencies(frequencies_hz))
