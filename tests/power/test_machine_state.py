"""Battery, charger, temperature and meters of this machine, on trees like those of real ones."""

from pathlib import Path

import pytest

from dealfl.errors import BadInput, DealError, UnknownName
from dealfl.power import MachineState, make_meter, read_machine
from tests.power.test_meter_sysfs import supply, tree, zone

LAPTOP = {
    **supply("BAT0", type="Battery", status="Discharging", energy_now=20_000_000,
             energy_full=50_000_000, voltage_now=11_400_000),
    **supply("AC", type="Mains", online=0),
    **supply("hidpp_battery_0", type="Battery", scope="Device", status="Discharging", capacity=5),
    "class/thermal/thermal_zone0/type": "acpitz",
    "class/thermal/thermal_zone0/temp": 47_800,
    "class/thermal/thermal_zone1/type": "iwlwifi_1",
    "class/thermal/thermal_zone1/temp": -274_000,
}  # fmt: skip
PHONE = {
    **supply("battery", type="Battery", status="Charging", capacity=81, charge_full=3_000_000,
             voltage_now=4_000_000, temp=312),
    **supply("usb", type="USB", online=1),
}  # fmt: skip


def test_a_laptop_on_battery(tmp_path: Path) -> None:
    assert read_machine(tree(tmp_path, LAPTOP)) == MachineState(0.4, False, 180_000.0, 47.8)


def test_a_phone_on_a_charger(tmp_path: Path) -> None:
    state = read_machine(tree(tmp_path, PHONE))
    assert (state.battery, state.charging, state.temperature_c) == (0.81, True, 31.2)
    assert state.capacity_j == pytest.approx(43_200.0)


def test_a_charger_counts_although_the_battery_still_discharges(tmp_path: Path) -> None:
    root = tree(tmp_path, LAPTOP)
    (root / "class/power_supply/AC/online").write_text("1\n")
    assert read_machine(root).charging


def test_files_that_vanish_are_not_known_and_nothing_fails(tmp_path: Path) -> None:
    root = tree(tmp_path, PHONE)
    for name in ("capacity", "charge_full", "temp", "status"):
        (root / "class/power_supply/battery" / name).unlink()
    assert read_machine(root) == MachineState(None, True, 0.0, None)


@pytest.mark.parametrize(
    ("name", "files", "by"),
    [
        ("rapl", zone("0", "package-0", 1), "RAPL (package-0)"),
        ("auto", zone("0", "package-0", 1), "RAPL (package-0)"),
        (
            "battery",
            supply("b", type="Battery", status="Discharging", charge_now=9, voltage_now=4_000_000),
            "battery gauge (b/charge_now)",
        ),
    ],
)
def test_a_meter_is_chosen_by_its_name(
    tmp_path: Path, name: str, files: dict[str, object], by: str
) -> None:
    meter = make_meter(name, tree(tmp_path, files))
    assert meter is not None
    assert meter.read().source.by == by


def test_a_meter_that_does_not_work_says_why(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"the meter 'rapl' does not work here: .*powercap does not"):
        make_meter("rapl", tmp_path)
    with pytest.raises(UnknownName, match=r"no meter called 'joules'"):
        make_meter("joules", tmp_path)
    assert make_meter("auto", tmp_path) is make_meter("model", tmp_path) is None


def test_a_recording_under_way_counts_from_its_last_sample(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_text("Time(ms),Main(mA),Main Voltage(V)\n0,100,4\n1000,100,4\n")
    meter = make_meter(str(path))
    assert meter is not None
    meter.start()
    assert meter.read().energy_j == 0.0
    with path.open("a") as file:
        file.write("3000,100,4\n")
    assert meter.read().energy_j == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("charge_now", (5_000, 5_001)),
        ("energy_now", (5_000, 5_001)),
        ("charge_counter", (5_000, 5_001, 4_999)),
        ("charge_counter", (5_000, 4_999, 5_001)),
    ],
)
def test_a_gauge_that_runs_backwards_is_named(
    tmp_path: Path, file: str, values: tuple[int, ...]
) -> None:
    files = {file: values[0], "type": "Battery", "status": "Discharging", "voltage_now": 4_000_000}
    meter = make_meter("battery", tree(tmp_path, supply("b", **files)))
    assert meter is not None
    *good, last = values[1:]
    for value in good:
        (tmp_path / "class/power_supply/b" / file).write_text(f"{value}\n")
        meter.read()
    (tmp_path / "class/power_supply/b" / file).write_text(f"{last}\n")
    with pytest.raises(DealError, match=rf"b/{file} runs backwards: it went from \d+ to {last}"):
        meter.read()
