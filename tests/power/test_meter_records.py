"""Meters that read a recording or a model."""

import json
from pathlib import Path

import pytest

from dealfl.errors import BadInput, DealError
from dealfl.power.meters import Kind, Reading, Source
from dealfl.power.meters.base import ModelledMeter
from dealfl.power.meters.recordings import MonsoonMeter, RecordedMeter

MAIN = "Time(ms),Main(mA),Main Voltage(V)\n"


def recording(folder: Path, text: str) -> Path:
    path = folder / "run.csv"
    path.write_text(text)
    return path


def test_a_constant_current_for_an_hour_is_its_charge(tmp_path: Path) -> None:
    rows = "".join(f"{60_000 * minute},100,4.0\n" for minute in range(61))
    meter = MonsoonMeter(recording(tmp_path, MAIN + rows))
    meter.start()
    reading = meter.read()
    assert reading.charge_uah == pytest.approx(100_000)
    assert reading.energy_j == pytest.approx(0.1 * 4.0 * 3600)
    assert str(reading.source) == "measured by Monsoon (run.csv)"


def test_a_ramp_is_integrated_also_where_samples_are_uneven(tmp_path: Path) -> None:
    rows = "0,0,4\n200,20,4\n1000,100,4\n"
    assert MonsoonMeter(recording(tmp_path, MAIN + rows)).read().charge_uah == pytest.approx(
        50 * 1000 / 3600
    )


def test_every_enabled_channel_counts_at_its_own_voltage(tmp_path: Path) -> None:
    text = (
        "Time(ms),Main(mA),USB(mA),Aux(mA),Main Voltage(V),USB Voltage(V)\n"
        "0,100,10,1,4,5\n3600,100,10,1,4,5\n"
    )
    reading = MonsoonMeter(recording(tmp_path, text), aux_voltage_v=3.0).read()
    assert reading.charge_uah == pytest.approx(111.0)
    assert reading.energy_j == pytest.approx((0.4 + 0.05 + 0.003) * 3.6)


def test_the_auxiliary_channel_needs_a_voltage(tmp_path: Path) -> None:
    path = recording(tmp_path, "Time(ms),Aux(mA)\n0,1\n")
    with pytest.raises(BadInput, match=r"line 1 has Aux\(mA\) without its voltage"):
        MonsoonMeter(path).read()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (MAIN + "0,1,4\n1,x,4\n", "line 3 cannot be read.*'x'"),
        (MAIN + "0,1,4\n1,1\n", "line 3 cannot be read"),
        (MAIN + "0,1,4\n1,1,4,9\n", "line 3 cannot be read"),
        (MAIN + "0,1,4\n\n", "line 3 cannot be read"),
        (MAIN + "0,1,4\n1,nan,4\n", "line 3 contains a value that is not finite"),
        (MAIN + "0,1,4\n1,1,inf\n", "line 3 contains a value that is not finite"),
        (MAIN + "5,1,4\n4,1,4\n", "line 3 goes back in time, from 5.0 to 4.0"),
        (MAIN, "line 2 is missing"),
        ("", "line 1 must name columns"),
        ("Time,Main\n0,1\n", "line 1 must name columns out of .*'Time,Main'"),
        ("Main(mA),Main Voltage(V)\n0,1\n", "line 1 must name columns"),
        ("Time(ms),Main Voltage(V)\n0,4\n", "line 1 has no current column"),
        ("Time(ms),Main(mA)\n0,4\n", "line 1 has Main.* without its voltage"),
    ],
)
def test_what_is_wrong_in_a_recording_is_named_by_line(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        MonsoonMeter(recording(tmp_path, text)).read()


def test_a_recording_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        MonsoonMeter(tmp_path / "none.csv").read()


def test_a_modelled_meter_counts_from_its_start_and_says_so() -> None:
    counted_j = [5.0]
    meter = ModelledMeter(lambda: counted_j[0], by="a profile", voltage_v=4.0)
    meter.start()
    counted_j[0] = 19.4
    reading = meter.read()
    assert reading.energy_j == pytest.approx(14.4)
    assert reading.charge_uah == pytest.approx(1000.0)
    assert reading.source == Source(Kind.MODELLED, "a profile")
    meter.start()
    assert meter.read().energy_j == 0.0


def test_without_a_battery_a_model_gives_no_charge() -> None:
    assert ModelledMeter(lambda: 1.0, by="a profile").read().charge_uah is None


@pytest.mark.parametrize("voltage_v", [0.0, -1.0, float("nan")])
def test_a_model_needs_a_voltage_above_zero(voltage_v: float) -> None:
    with pytest.raises(BadInput, match="voltage_v"):
        ModelledMeter(lambda: 1.0, by="a profile", voltage_v=voltage_v)


def test_a_record_is_replayed_in_order_and_then_ends(tmp_path: Path) -> None:
    readings = [
        Reading(1.0, None, Source(Kind.MEASURED, "RAPL")),
        Reading(2.0, 3.0, Source(Kind.MODELLED, "a profile")),
    ]
    path = tmp_path / "record.jsonl"
    path.write_text("".join(json.dumps(reading.as_dict()) + "\n" for reading in readings))
    meter = RecordedMeter.load(path)
    meter.start()
    assert [meter.read(), meter.read()] == readings
    with pytest.raises(DealError, match="ends after 2 readings"):
        meter.read()


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"energy_j": 1, "charge_uah": null, "source": "guessed", "by": "x"}']
)
def test_a_damaged_record_is_named_by_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text(line)
    with pytest.raises(BadInput, match="line 1 is not a reading"):
        RecordedMeter.load(path)
