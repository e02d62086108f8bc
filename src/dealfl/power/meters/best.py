"""Which meter to use on this machine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dealfl.errors import DealError
from dealfl.power.meters.base import Meter
from dealfl.power.meters.battery import BatteryMeter
from dealfl.power.meters.rapl import RaplMeter

__all__ = ["MeterChoice", "best_meter"]

# RAPL resolves microjoules; a battery gauge steps by several joules
_BY_QUALITY: Mapping[str, Callable[[Path], Meter]] = {
    "RAPL": RaplMeter,
    "battery gauge": BatteryMeter,
}


@dataclass(frozen=True, slots=True)
class MeterChoice:
    """The best meter that works here, if one does, and why each better one does not."""

    meter: Meter | None
    refused: Mapping[str, str]


def best_meter(root: str | Path = "/sys") -> MeterChoice:
    """Return the best meter of this machine, with the reason for each that does not work.

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
