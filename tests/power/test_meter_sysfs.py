"""Energy counters and fuel gauges, on directory trees like those of real machines."""

import os
from pathlib import Path

import pytest

from dealfl.errors import DealError
from dealfl.power.meters import BatteryMeter, Kind, RaplMeter, best_meter

RANGE_UJ = 262_143_328_850


def tree(root: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root


def zone(
    number: str, name: str, energy_uj: object, prefix: str = "intel-rapl"
) -> dict[str, object]:
    folder = f"class/powercap/{prefix}:{number}"
    return {
        f"{folder}/name": name,
        f"{folder}/energy_uj": energy_uj,
        f"{folder}/max_energy_range_uj": RANGE_UJ,
    }


def supply(name: str, **files: object) -> dict[str, object]:
    return {f"class/power_supply/{name}/{file}": content for file, content in files.items()}


def set_uj(root: Path, number: str, energy_uj: int) -> None:
    (root / f"class/powercap/intel-rapl:{number}/energy_uj").write_text(f"{energy_uj}\n")


def set_gauge(root: Path, name: str, **files: object) -> None:
    tree(root, supply(name, **files))


@pytest.fixture
def deny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deny energy_uj as the kernel does to users; root, who may run this, is denied nothing."""
    real = Path.read_text

    def read_text(self: Path, *args: str, **kwargs: str) -> str:
        if self.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", read_text)


def test_a_package_is_measured_in_joules(tmp_path: Path) -> None:
    meter = RaplMeter(tree(tmp_path, zone("0", "package-0", 5_000_000)))
    meter.start()
    set_uj(tmp_path, "0", 7_500_000)
    reading = meter.read()
    assert reading.energy_j == 2.5
    assert reading.charge_uah is None
    assert str(reading.source) == "measured by RAPL (package-0)"


def test_a_reading_counts_from_the_start_and_a_new_start_from_zero(tmp_path: Path) -> None:
    meter = RaplMeter(tree(tmp_path, zone("0", "package-0", 0)))
    meter.start()
    for energy_uj in (1_000_000, 3_000_000):
        set_uj(tmp_path, "0", energy_uj)
        assert meter.read().energy_j == energy_uj / 1e6
    meter.start()
    assert meter.read().energy_j == 0.0


def test_a_counter_that_wraps_around_twice_is_followed(tmp_path: Path) -> None:
    meter = RaplMeter(tree(tmp_path, zone("0", "package-0", RANGE_UJ - 1_000_000)))
    meter.start()
    for energy_uj in (2_000_000, RANGE_UJ - 1_000_000, 2_000_000):
        set_uj(tmp_path, "0", energy_uj)
        reading = meter.read()
    assert reading.energy_j == pytest.approx((RANGE_UJ + 3_000_000) / 1e6)


@pytest.mark.parametrize("stated", [None, "garbage", "5"])
def test_a_wrap_around_without_a_sound_range_is_not_guessed(
    tmp_path: Path, stated: str | None
) -> None:
    tree(tmp_path, zone("0", "package-0", 9_000_000))
    limit = tmp_path / "class/powercap/intel-rapl:0/max_energy_range_uj"
    limit.unlink() if stated is None else limit.write_text(stated)
    meter = RaplMeter(tmp_path)
    set_uj(tmp_path, "0", 10_000_000)
    assert meter.read().energy_j == 1.0
    set_uj(tmp_path, "0", 3)
    with pytest.raises(DealError, match="fell from 10000000 to 3"):
        meter.read()


def test_only_packages_count_and_each_once(tmp_path: Path) -> None:
    tree(
        tmp_path,
        zone("0", "package-0", 0)
        | zone("0:0", "core", 0)
        | zone("0:1", "dram", 0)
        | zone("1", "package-1", 0)
        | zone("2", "psys", 0)
        | zone("0", "package-0", 0, prefix="intel-rapl-mmio"),
    )
    nested = tmp_path / "class/powercap/intel-rapl:0/intel-rapl:0:0"
    nested.symlink_to(tmp_path / "class/powercap/intel-rapl:0:0")
    meter = RaplMeter(tmp_path)
    for path in (tmp_path / "class/powercap").glob("*/energy_uj"):
        path.write_text("1000000")
    reading = meter.read()
    assert reading.energy_j == 2.0
    assert reading.source.by == "RAPL (package-0, package-1)"


def test_amd_and_dies_have_the_same_names(tmp_path: Path) -> None:
    # amd: the driver is intel_rapl_msr and the folder intel-rapl, with one child called core
    tree(tmp_path, zone("0", "package-0-die-0", 0) | zone("1", "package-0-die-1", 0))
    tree(tmp_path, zone("0:0", "core", 0))
    meter = RaplMeter(tmp_path)
    set_uj(tmp_path, "0", 10)
    set_uj(tmp_path, "1", 20)
    assert meter.read().energy_j == pytest.approx(30e-6)


def test_only_the_package_that_wrapped_is_corrected(tmp_path: Path) -> None:
    tree(tmp_path, zone("0", "package-0", RANGE_UJ) | zone("1", "package-1", 100))
    meter = RaplMeter(tmp_path)
    set_uj(tmp_path, "0", 50)
    set_uj(tmp_path, "1", 150)
    assert meter.read().energy_j == pytest.approx(100e-6)


@pytest.mark.usefixtures("deny")
def test_a_counter_for_root_only_says_so(tmp_path: Path) -> None:
    tree(tmp_path, zone("0", "package-0", 0))
    with pytest.raises(DealError, match="energy_uj is not readable by this user; run as root"):
        RaplMeter(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_counter_without_permission_bits_says_so(tmp_path: Path) -> None:
    tree(tmp_path, zone("0", "package-0", 0))
    (tmp_path / "class/powercap/intel-rapl:0/energy_uj").chmod(0)
    with pytest.raises(DealError, match="root may"):
        RaplMeter(tmp_path)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "no RAPL driver, or a container hides it"),
        (zone("0", "psys", 0), "no processor package; found: psys"),
        ({"class/powercap/intel-rapl/enabled": 1}, "found: nothing"),
        (zone("0", "package-0", "n/a"), "contains 'n/a', not a whole number"),
        (zone("0", "package-0", ""), "contains '', not a whole number"),
        ({"class/powercap/intel-rapl:0/name": "package-0"}, "energy_uj does not exist"),
        ({"class/powercap/intel-rapl:0/energy_uj": 5}, "found: intel-rapl:0"),
    ],
)
def test_where_rapl_does_not_work_the_reason_is_named(
    tmp_path: Path, files: dict[str, object], reason: str
) -> None:
    with pytest.raises(DealError, match=reason):
        RaplMeter(tree(tmp_path, files))


def test_a_counter_that_vanishes_meanwhile_is_an_error(tmp_path: Path) -> None:
    meter = RaplMeter(tree(tmp_path, zone("0", "package-0", 0)))
    (tmp_path / "class/powercap/intel-rapl:0/energy_uj").unlink()
    with pytest.raises(DealError, match="does not exist"):
        meter.read()


def phone(**files: object) -> dict[str, object]:
    usual = {"type": "Battery", "status": "Discharging", "voltage_now": 4_000_000}
    return supply("battery", **(usual | files))


def test_a_phone_counts_coulombs(tmp_path: Path) -> None:
    meter = BatteryMeter(tree(tmp_path, phone(charge_counter=2_000_000, charge_now=7)))
    meter.start()
    set_gauge(tmp_path, "battery", charge_counter=1_999_000, voltage_now=3_800_000)
    reading = meter.read()
    assert reading.charge_uah == 1000.0
    assert reading.energy_j == pytest.approx(0.001 * 3.9 * 3600)
    assert reading.source.kind is Kind.MEASURED
    assert reading.source.by == "battery gauge (battery/charge_counter)"


def test_a_laptop_with_energy_instead_of_charge_is_converted(tmp_path: Path) -> None:
    laptop = supply(
        "BAT0", type="Battery", status="Discharging", energy_now=50_000_000, voltage_now=12_000_000
    )
    meter = BatteryMeter(tree(tmp_path, supply("AC", type="Mains", online=0) | laptop))
    set_gauge(tmp_path, "BAT0", energy_now=49_990_000)
    reading = meter.read()
    assert reading.energy_j == pytest.approx(36.0)
    assert reading.charge_uah == pytest.approx(10_000 / 12)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_sign_of_a_driver_does_not_matter(tmp_path: Path, sign: int) -> None:
    meter = BatteryMeter(tree(tmp_path, phone(charge_now=sign * 1_000_000)))
    set_gauge(tmp_path, "battery", charge_now=sign * 999_000)
    assert meter.read().charge_uah == 1000.0


@pytest.mark.parametrize("sign", [1, -1])
def test_a_gauge_of_current_only_is_integrated_whatever_its_sign(tmp_path: Path, sign: int) -> None:
    now_s = [100.0]
    meter = BatteryMeter(tree(tmp_path, phone(current_now=sign * 360_000)), now_s=lambda: now_s[0])
    meter.start()
    for _ in range(2):
        now_s[0] += 10.0
        reading = meter.read()
    assert reading.charge_uah == pytest.approx(2000.0)
    assert reading.energy_j == pytest.approx(0.36 * 20 * 4.0)


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging", "Unknown", ""])
def test_a_battery_that_does_not_discharge_shows_nothing_of_the_work(
    tmp_path: Path, status: str
) -> None:
    with pytest.raises(DealError, match="not discharging"):
        BatteryMeter(tree(tmp_path, phone(charge_now=1, status=status)))


def test_a_charger_plugged_in_meanwhile_spoils_the_measurement(tmp_path: Path) -> None:
    meter = BatteryMeter(tree(tmp_path, phone(charge_now=1000)))
    set_gauge(tmp_path, "battery", status="Charging", charge_now=1100)
    with pytest.raises(DealError, match="is charging, not discharging"):
        meter.read()


def test_the_battery_is_picked_among_supplies(tmp_path: Path) -> None:
    tree(
        tmp_path,
        supply("AC", type="Mains", online=0)
        | supply("A-mouse", type="Battery", scope="Device", status="Discharging", charge_now=1)
        | supply("BAT0", type="Battery", present=0)
        | supply("BAT1", type="Battery", status="Full", charge_now=9, voltage_now=12_000_000)
        | supply("BAT2", type="Battery", status="Discharging", charge_now=9, voltage_now=12_000_000)
        | supply("usb", type="USB"),
    )
    assert BatteryMeter(tmp_path).read().source.by == "battery gauge (BAT2/charge_now)"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "has no battery; found: nothing"),
        (supply("AC", type="Mains"), "found: AC"),
        (phone(), "reports no charge: .*charge_counter does not exist"),
        (phone(charge_now="garbage"), "charge_now contains 'garbage'"),
        (phone(charge_now=5, voltage_now="?"), "reports no voltage"),
        (phone(charge_now=5, voltage_now=0), "reports no voltage"),
        (supply("battery", type="Battery", charge_now=5), "status does not exist"),
    ],
)
def test_where_no_gauge_works_the_reason_is_named(
    tmp_path: Path, files: dict[str, object], reason: str
) -> None:
    with pytest.raises(DealError, match=reason):
        BatteryMeter(tree(tmp_path, files))


def test_a_driver_that_answers_with_an_error_is_passed_over(tmp_path: Path) -> None:
    tree(tmp_path, phone(charge_now=5_000, energy_now=3))
    (tmp_path / "class/power_supply/battery/charge_counter").mkdir()  # reading it: EISDIR
    assert BatteryMeter(tmp_path).read().source.by.endswith("/charge_now)")


def test_rapl_is_preferred_to_the_battery(tmp_path: Path) -> None:
    meter, refused = best_meter(tree(tmp_path, zone("0", "package-0", 0) | phone(charge_now=5)))
    assert isinstance(meter, RaplMeter)
    assert refused == {}


@pytest.mark.usefixtures("deny")
def test_the_battery_serves_where_rapl_is_denied_and_the_reason_is_kept(tmp_path: Path) -> None:
    meter, refused = best_meter(tree(tmp_path, zone("0", "package-0", 0) | phone(charge_now=5)))
    assert isinstance(meter, BatteryMeter)
    assert "run as root" in refused["RAPL"]


def test_without_any_meter_every_reason_is_given(tmp_path: Path) -> None:
    meter, refused = best_meter(tmp_path)
    assert meter is None
    assert list(refused) == ["RAPL", "battery gauge"]
