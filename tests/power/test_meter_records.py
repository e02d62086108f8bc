"""Meters that read a recording."""

from pathlib import Path

import pytest

from dealfl.errors import BadInput
from dealfl.power.meters import MonsoonMeter

MAIN = "Time(ms),Main(mA),Main Voltage(V)\n"


def recording(folder: Path, text: str) -> Path:
    path = folder / "run.csv"
    path.write_text(text)
    return path


def test_a_constant_current_for_an_hour_is_its_charge(tmp_path: Path) -> None:
    rows = "".join(f"{60_000 * minute},100,4.0\n" for minute in range(61))
    reading = MonsoonMeter(recording(tmp_path, MAIN + rows)).read()
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
        "Time(ms),Main(mA),USB(mA),Main Voltage(V),USB Voltage(V)\n0,100,10,4,5\n3600,100,10,4,5\n"
    )
    reading = MonsoonMeter(recording(tmp_path, text)).read()
    assert reading.charge_uah == pytest.approx(110.0)
    assert reading.energy_j == pytest.approx((0.4 + 0.05) * 3.6)


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
