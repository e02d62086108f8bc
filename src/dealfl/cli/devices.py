"""`dealfl devices`: list phones, and show the energy of their clock frequencies.

examples:
  dealfl devices                     list the phones
  dealfl devices show honor          show its operating points and their charge per cycle
  dealfl devices show my-phone.toml  show a phone of your own

All values are modelled from the profiles, which state the evidence for each value.
"""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dealfl.cli.measure import add_calibrate, add_measure
from dealfl.cli.printing import add_json, examples_in, format_table, print_problems, print_result

__all__ = ["add_parser"]

if TYPE_CHECKING:
    from dealfl.power import BaseLoad, OperatingPoint, Phone

    _Actions = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = examples_in(__doc__)

_BAR_WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"
_UAH_PER_GCYCLE = 1e9 / 3.6e-3  # per coulomb per cycle


def add_parser(subparsers: "_Actions") -> None:
    """Register the command `devices`."""
    parser = subparsers.add_parser(
        "devices",
        help="list phones and show the energy of their clocks",
        description="List the phones with a profile, or show one of them.",
        epilog=_EPILOG,
    )
    add_json(parser)
    parser.set_defaults(run=_list)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    _add_show(actions)
    add_measure(actions)
    add_calibrate(actions)


def _add_show(actions: "_Actions") -> None:
    show = actions.add_parser("show", help="show the charge per cycle at each operating point")
    show.add_argument("name", metavar="NAME", help="name of a phone, or its TOML file")
    show.set_defaults(run=_show)
    add_json(show, default=argparse.SUPPRESS)


def _list(arguments: argparse.Namespace) -> int:
    from dealfl.power import PHONES

    rows = [_described(phone) for phone in PHONES.usable().values()]
    print_problems(PHONES.problems())
    header = ("NAME", "CORES", "CLOCK", "BATTERY", "CURRENTS", "MODEL")
    table = [
        (row["name"], str(row["cores"]), f"{row['max_hz'] / 1e9:.2f} GHz",
         f"{row['battery_mah']:.0f} mAh", row["quality"]["clusters[0].currents"], row["model"])
        for row in rows
    ]  # fmt: skip
    return print_result(arguments, {"devices": rows}, format_table([header, *table]))


def _show(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from dealfl.power import load_phone, phone

    is_file = arguments.name.endswith(".toml") or Path(arguments.name).is_file()
    found = load_phone(arguments.name) if is_file else phone(arguments.name)
    return print_result(arguments, _detailed(found), _text(found))


def _described(phone: "Phone") -> dict[str, Any]:
    return {
        "name": phone.name,
        "model": phone.model,
        "processor": phone.processor,
        "android": phone.android,
        "cores": phone.cores,
        "max_hz": phone.fastest.frequency_hz,
        "battery_mah": phone.battery.capacity_c / 3.6,
        "battery_v": phone.battery.voltage_v,
        "cycle_factor": phone.cycle_factor,
        "quality": {key: one.quality.value for key, one in phone.evidence.items()},
    }


def _detailed(phone: "Phone") -> dict[str, Any]:
    evidence = {
        key: {"quality": one.quality.value, "source": one.source}
        for key, one in phone.evidence.items()
    }
    loads = [_under(phone, base) for base in _base_loads()]
    return {**_described(phone), "source": "modelled", "evidence": evidence, "base_loads": loads}


def _under(phone: "Phone", base: "BaseLoad") -> dict[str, Any]:
    from dealfl.power import charge_per_cycle_c, efficient_frontier

    frontier = efficient_frontier(phone, base)
    critical, *_ = frontier
    costs_c = [charge_per_cycle_c(phone, point, base) for point in (critical, phone.fastest)]
    return {
        "base_load": base.value,
        "base_a": phone.base_a(base),
        "critical": _point(phone, critical, base),
        "saving_against_fastest": 1.0 - costs_c[0] / costs_c[1],
        "frontier_hz": [point.frequency_hz for point in frontier],
        "points": [
            {**_point(phone, point, base), "efficient": point in frontier} for point in phone.points
        ],
    }


def _point(phone: "Phone", point: "OperatingPoint", base: "BaseLoad") -> dict[str, Any]:
    from dealfl.power import charge_per_cycle_c

    return {
        "cluster": phone.clusters[point.cluster].name,
        "frequency_hz": point.frequency_hz,
        "current_a": phone.current_a(point),
        "uah_per_gcycle": charge_per_cycle_c(phone, point, base) * _UAH_PER_GCYCLE,
    }


def _base_loads() -> tuple["BaseLoad", ...]:
    from dealfl.power import BaseLoad

    return BaseLoad.AWAKE, BaseLoad.WIFI, BaseLoad.SCREEN


def _text(phone: "Phone") -> str:
    battery, evidence = phone.battery, phone.evidence.items()
    curves = "".join(line for base in _base_loads() for line in _curve(_under(phone, base)))
    sources = format_table([(key, one.quality.value, one.source) for key, one in evidence])
    return (
        f"{phone.name}: {phone.model}\n{phone.processor}; Android {phone.android}\n"
        f"battery {battery.capacity_c / 3.6:.0f} mAh at {battery.voltage_v} V; "
        f"{phone.cycle_factor:g} cycles per cycle of the calibration machine (declared)\n{curves}\n"
        "● efficient frontier   ◆ critical operating point: a slower clock does not save charge\n"
        f"\nevidence for each value:\n{sources}"
    )


def _curve(load: dict[str, Any]) -> Iterator[str]:
    critical, most = load["critical"], max(point["uah_per_gcycle"] for point in load["points"])
    current = f"{load['base_a'] * 1e3:.0f} mA"
    yield f"\n{load['base_load']} ({current}): µAh per 10⁹ cycles, one busy core\n"
    for point in load["points"]:
        mark = "●" if point["efficient"] else " "
        at_critical = point["frequency_hz"] == critical["frequency_hz"] and point["efficient"]
        yield (
            f"  {point['cluster']:>6} {point['frequency_hz'] / 1e6:7.1f} MHz "
            f"{point['current_a'] * 1e3:6.1f} mA {'◆' if at_critical else mark} "
            f"{point['uah_per_gcycle']:6.2f} {_bar(point['uah_per_gcycle'] / most)}\n"
        )
    yield f"  saved at ◆ compared with the fastest: {load['saving_against_fastest']:.1%}\n"


def _bar(fraction: float) -> str:
    """Return a bar whose length is a fraction of the full width, to an eighth of a character."""
    whole, eighths = divmod(round(fraction * _BAR_WIDTH * 8), 8)
    return ("█" * whole + _EIGHTHS[eighths]).rstrip()
