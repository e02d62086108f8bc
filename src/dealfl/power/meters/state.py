"""The state of this machine in sysfs: battery, charger and temperature; and a meter by name."""

from dataclasses import dataclass
from pathlib import Path

from dealfl.errors import BadInput, DealError, unknown_name
from dealfl.power.meters.base import Meter
from dealfl.power.meters.machine import (
    BatteryMeter,
    RaplMeter,
    best_meter,
    find_battery,
    read_voltage_v,
    try_integer,
    try_text,
)
from dealfl.power.meters.recordings import MonsoonMeter

__all__ = ["METERS", "MachineState", "make_meter", "read_machine"]

METERS = ("auto", "rapl", "battery", "model")

_POSSIBLE_C = range(-40, 150)  # other values are those of sensors that do not work
_ON_POWER = ("charging", "full", "not charging")  # states of a battery
_J_PER_UWH = 3.6e-3
_J_PER_UAH_V = 3.6e-3


@dataclass(frozen=True, slots=True)
class MachineState:
    """The state of this machine; a machine without a battery counts as charged and charging.

    Parameters
    ----------
    battery : float or None, default None
        Level of the battery, from 0 to 1; None if it cannot be read.
    charging : bool, default True
        Whether the machine has external power.
    capacity_j : float, default 0
        Energy of a full battery, in joules; 0 if unknown.
    temperature_c : float or None, default None
        Highest temperature of a sensor, in °C; None if there is none.
    """

    battery: float | None = None
    charging: bool = True
    capacity_j: float = 0.0
    temperature_c: float | None = None


def read_machine(root: str | Path = "/sys") -> MachineState:
    """Return the state of this machine, as far as the kernel shows it.

    Parameters
    ----------
    root : str or Path, default "/sys"
        Mount point of sysfs.

    Returns
    -------
    MachineState
        Battery, charger and temperature.

    Examples
    --------
    >>> read_machine("/nowhere")
    MachineState(battery=None, charging=True, capacity_j=0.0, temperature_c=None)
    """
    supplies, temperature_c = Path(root) / "class/power_supply", _temperature_c(Path(root))
    try:
        battery = find_battery(supplies)
    except DealError:
        return MachineState(temperature_c=temperature_c)
    status = (try_text(battery / "status") or "").lower()
    others = (one for one in supplies.iterdir() if (try_text(one / "type") or "") != "Battery")
    charging = status in _ON_POWER or any(try_integer(one / "online") == 1 for one in others)
    return MachineState(_level(battery), charging, _capacity_j(battery), temperature_c)


def _level(battery: Path) -> float | None:
    """Return the level of a battery: its gauge's, or the charge as a share of a full one."""
    percent = try_integer(battery / "capacity")
    if percent is not None:
        return min(max(percent / 100, 0.0), 1.0)
    for kind in ("charge", "energy"):
        now, full = (try_integer(battery / f"{kind}_{when}") for when in ("now", "full"))
        if now is not None and full:
            return min(max(now / full, 0.0), 1.0)
    return None


def _capacity_j(battery: Path) -> float:
    energy_uwh, charge_uah = (
        try_integer(battery / f"{kind}_full") for kind in ("energy", "charge")
    )
    if energy_uwh:
        return energy_uwh * _J_PER_UWH
    try:
        return (charge_uah or 0) * _J_PER_UAH_V * read_voltage_v(battery)
    except DealError:
        return 0.0


def _temperature_c(root: Path) -> float | None:
    zones = root.glob("class/thermal/thermal_zone*/temp")  # in m°C
    batteries = root.glob("class/power_supply/*/temp")  # in 0.1 °C
    read = [(try_integer(path), 1000) for path in zones]
    read += [(try_integer(path), 10) for path in batteries]
    found = [value / unit for value, unit in read if value is not None]
    return max((one for one in found if int(one) in _POSSIBLE_C), default=None)


def make_meter(name: str, root: str | Path = "/sys") -> Meter | None:
    """Return the energy meter of this machine that has a name.

    Parameters
    ----------
    name : str
        A name in `METERS`, or the path of a CSV file that a Monsoon power monitor writes.
    root : str or Path, default "/sys"
        Mount point of sysfs.

    Returns
    -------
    Meter or None
        The meter; None for "model", and for "auto" on a machine without a meter.

    Raises
    ------
    BadInput
        If the meter does not work on this machine; the message has the reason.
    UnknownName
        If there is no meter of that name.
    """
    if name.endswith(".csv"):
        return MonsoonMeter(name, live=True)
    if name not in METERS:
        raise unknown_name("meter", name, (*METERS, "FILE.csv"))
    if name in ("auto", "model"):
        return best_meter(root).meter if name == "auto" else None
    try:
        return RaplMeter(root) if name == "rapl" else BatteryMeter(root)
    except DealError as error:
        raise BadInput(f"the meter {name!r} does not work here: {error}") from None
