"""Choice of the best meter of this machine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dealfl.errors import DealError
from dealfl.power.meters.base import Meter
from dealfl.power.meters.battery_gauge import BatteryMeter
from dealfl.power.meters.rapl import RaplMeter

__all__ = ["MeterChoice", "best_meter"]

# RAPL resolves microjoules; a battery gauge has steps of several joules
_BY_QUALITY: Mapping[str, Callable[[Path], Meter]] = {
    "RAPL": RaplMeter,
    "battery gauge": BatteryMeter,
}


@dataclass(frozen=True, slots=True)
class MeterChoice:
    """The best meter that works on this machine.

    Parameters
    ----------
    meter : Meter or None
        The meter; None if none works.
    refused : mapping of str to str
        The reason why each better meter does not work, by its name.
    """

    meter: Meter | None
    refused: Mapping[str, str]


def best_meter(root: str | Path = "/sys") -> MeterChoice:
    """Return the best meter of this machine.

    Parameters
    ----------
    root : str or Path, default "/sys"
        Mount point of sysfs.

    Returns
    -------
    MeterChoice
        The meter, if any, and the reason why each better one does not work.

    Examples
    --------
    >>> choice = best_meter("/nowhere")
    >>> choice.meter, sorted(choice.refused)
    (None, ['RAPL', 'battery gauge'])
    """
    refused: dict[str, str] = {}
    for name, made in _BY_QUALITY.items():
        try:
            return MeterChoice(made(Path(root)), refused)
        except DealError as reason:
            refused[name] = str(reason)
    return MeterChoice(None, refused)
