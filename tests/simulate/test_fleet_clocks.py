"""The clocks of a fleet's phones: control, governors and fixed frequencies, as keys of a job."""

from typing import Any

import pytest

from dealfl.errors import BadInput
from dealfl.power import CLOCKS
from dealfl.simulate import FleetEnergy, read_fleet, run_fleet
from tests.simulate.fleets import document

_FEW = {"job.rounds": 4, "data.rows": 200}


def fleet(*groups: dict[str, Any]) -> Any:
    parts = {"devices": list(groups), "availability": {"kind": "always"}, "faults": {}}
    return read_fleet(document(_FEW, parts))


def energy(**changes: Any) -> FleetEnergy:
    return run_fleet(fleet({"count": 3, "phone": "honor"} | changes)).energy


def test_every_clock_does_the_same_work_and_control_costs_least() -> None:
    by_clock = {name: energy(governor=name) for name in CLOCKS}
    assert len({one.cycles for one in by_clock.values()}) == 1
    assert min(by_clock, key=lambda name: by_clock[name].charge_uah) == "deal"
    assert by_clock["powersave"].compute_s == pytest.approx(
        by_clock["performance"].compute_s * 2112 / 1402
    )


def test_a_fixed_frequency_is_kept() -> None:
    slow, fast = energy(frequency_mhz=1402), energy(frequency_mhz=2112)
    assert slow.compute_s == pytest.approx(fast.compute_s * 2112 / 1402)
    assert energy(governor="deal").charge_uah <= 1.05 * min(slow.charge_uah, fast.charge_uah)


def test_a_lit_screen_costs_energy_while_a_phone_trains() -> None:
    assert energy().by_cause_j["screen"] == 0.0
    assert energy(base_load="screen").by_cause_j["screen"] > 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"phone": "honor", "frequency_mhz": 1400},
            r"devices\.1\.frequency_mhz: honor has no clock frequency of 1400 MHz; it has 480, 807",
        ),
        (
            {"phone": "honor", "frequency_mhz": 1402, "governor": "ondemand"},
            r"devices\.1\.frequency_mhz fixes the clock; remove it or devices\.1\.governor",
        ),
        ({"governor": "turbo"}, r"devices\.1\.governor is 'turbo'.*\"ondemand\""),
        (
            {"governor": "ondemand"},
            r"devices\.1\.governor needs the profile of a phone; add",
        ),
        ({"frequency_mhz": 1402}, r"devices\.1\.frequency_mhz needs the profile"),
    ],
)
def test_clocks_that_a_device_cannot_have_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        fleet({"count": 3} | changes)
