"""Fleets of phones: profiles, batteries that drain, and energy by cause."""

import json
from pathlib import Path
from typing import Any

import pytest

from dealfl.errors import BadInput
from dealfl.power import PHONES, Energy, Spent, Training
from dealfl.settings import Document
from dealfl.simulate import read_fleet, run_fleet
from dealfl.simulate.devices import SimulatedDevice, SpeedMeter
from dealfl.simulate.outcome import fleet_energy
from dealfl.worker import Device
from tests.simulate.fleets import document

PHONE_FOLDER = Path("src/dealfl/power/phones").resolve()


def phones(**changes: Any) -> dict[str, Any]:
    kinds = [{"count": 3, "phone": name} | changes for name in PHONES]
    prompt = {"rtt_s": 0.0, "handshake_bytes": 0}  # a round then takes as long as its work
    return {"devices": kinds, "availability": {"kind": "always"}, "faults": {}, "radio": prompt}


def phone_fleet(keys: dict[str, Any] | None = None, **changes: Any) -> Any:
    return read_fleet(document(keys, phones(**changes)))


def test_a_phone_brings_name_profile_and_battery() -> None:
    group = phone_fleet().devices[0]
    honor = PHONES["honor"]
    assert (group.device, group.profile) == ("honor", honor.over(rtt_s=0.0))
    assert group.capacity_j == pytest.approx(3.0 * 3600 * 3.82)
    named = phone_fleet(device="test phone").devices[0]
    assert (named.device, named.profile) == ("test phone", honor.over(rtt_s=0.0))


def test_a_phone_may_be_a_file_beside_the_fleet(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text((PHONE_FOLDER / "mi.toml").read_text())
    text = '[job]\ndataset = "digits"\n[[devices]]\ncount = 1\nphone = "mine.toml"\n'
    (tmp_path / "fleet.toml").write_text(text)
    assert read_fleet(Document.read(tmp_path / "fleet.toml")).devices[0].profile == PHONES["mi"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('phone = "hono"', "line 5: devices.1.phone is 'hono'; it must be one of \"honor\""),
        ('phone = "none.toml"', "fleet.toml, line 5: devices.1.phone: "),
        ('phone = "mi"\nwake_j = 1.0', "line 6: devices.1.wake_j is part of the phone's profile"),
        ("min_battery = 2", "line 5: devices.1.min_battery is 2; it takes a number from 0"),
    ],
)  # fmt: skip
def test_a_phone_that_is_not_known_is_reported_with_key_and_line(lines: str, told: str) -> None:
    text = f'[job]\ndataset = "digits"\n[[devices]]\ncount = 1\n{lines}\n'
    with pytest.raises(BadInput) as refused:
        read_fleet(Document.parse(text, "fleet.toml"))
    assert told in str(refused.value)


@pytest.mark.parametrize("learner", ["naive_bayes", "tikhonov_classifier", "neighbors"])
def test_phones_are_simulated_exactly_and_the_same_for_a_seed(learner: str) -> None:
    first, second = (run_fleet(phone_fleet({"job.learner": learner})) for _ in range(2))
    assert first.exact
    assert first == second


def test_energy_is_reported_by_cause_and_adds_up() -> None:
    outcome = run_fleet(phone_fleet({"job.learner": "tikhonov_classifier"}))
    energy = outcome.energy
    assert energy.source == "modelled"
    assert energy.whole_j == pytest.approx(sum(energy.by_cause_j.values()))
    assert energy.compute_j > 0.0
    assert energy.by_cause_j["radio_tail"] > energy.compute_j, "on small jobs the tail costs most"
    low, high = energy.band_j
    assert low < energy.whole_j < high
    assert energy.wake_ups == outcome.updates
    assert energy.wake_ups < energy.wake_ups_of_everyone
    assert energy.savings.less_work_j > 0.0
    assert energy.savings.fewer_wake_ups_j > 0.0
    assert energy.savings.dvfs_j >= 0.0
    assert energy.added_latency >= 0.0
    plain = json.loads(json.dumps(outcome.as_dict()))
    assert plain["energy"]["saved_j"]["less_work"] == energy.savings.less_work_j
    assert plain["energy_j"] == energy.whole_j


def test_who_trains_from_scratch_saves_no_work_and_spends_more() -> None:
    keys = {"job.learner": "tikhonov_classifier", "job.rounds": 6}
    scratch, change = (
        run_fleet(phone_fleet(keys | {"job.scheme": scheme})) for scheme in ("original", "deal")
    )
    assert scratch.energy.savings.less_work_j == pytest.approx(0.0, abs=1e-9)
    assert scratch.energy.compute_j > change.energy.compute_j


def test_who_wakes_everybody_spares_no_wake_up() -> None:
    everyone, some = (
        run_fleet(phone_fleet({"job.selector": selector})).energy
        for selector in ("everyone", "uniform")
    )
    assert everyone.wake_ups == everyone.wake_ups_of_everyone
    assert some.wake_ups < some.wake_ups_of_everyone
    assert everyone.savings.fewer_wake_ups_j == 0.0


def test_a_model_to_fetch_and_an_update_to_send_cost_the_radio() -> None:
    small, large = (
        run_fleet(phone_fleet({"job.learner": learner, "job.rounds": 4})).energy
        for learner in ("naive_bayes", "tikhonov_classifier")
    )
    mean_small, mean_large = (
        energy.by_cause_j["radio_active"] / energy.wake_ups for energy in (small, large)
    )
    assert mean_large > 2 * mean_small


@pytest.mark.parametrize("learner", ["naive_bayes", "tikhonov_classifier", "neighbors"])
def test_the_server_expects_times_within_a_tenth(learner: str) -> None:
    outcome = run_fleet(phone_fleet({"job.learner": learner, "job.rounds": 40, "data.rows": 0}))
    assert outcome.law_error is not None
    assert outcome.law_error <= 0.10
    assert outcome.prediction_error is not None
    assert outcome.prediction_error <= 0.20, "two examples arrive after the selection"


# -- batteries ----------------------------------------------------------------------------------


def test_a_battery_falls_with_what_is_spent_and_with_time() -> None:
    meter = SpeedMeter(1e6, 1e-6)
    battery = SimulatedDevice(Device("d", 100.0, 0.5), meter, idle_w=1.0)
    assert battery(0.0).battery == 0.5
    meter.spent = Spent(compute=Energy(cpu_j=10.0))
    assert battery(0.0).battery == pytest.approx(0.4)
    assert battery(10.0).battery == pytest.approx(0.3)
    assert battery(5.0).battery == pytest.approx(0.3), "a clock that jumps back charges nothing"
    assert battery(1000.0).battery == 0.0


def test_a_charger_fills_it_and_pays_for_work() -> None:
    meter = SpeedMeter(1e6, 1e-6)
    meter.spent = Spent(compute=Energy(cpu_j=50.0))
    battery = SimulatedDevice(
        Device("d", 100.0, 0.5, charging=True), meter, idle_w=1.0, charging_w=2.0
    )
    assert battery(10.0).battery == pytest.approx(0.7)
    assert battery(1000.0).battery == 1.0


def test_without_a_battery_nothing_falls() -> None:
    meter = SpeedMeter(1e6, 1e-6)
    meter.spent = Spent(compute=Energy(cpu_j=1e9))
    assert SimulatedDevice(Device("d", 0.0, 1.0), meter)(1e9).battery == 1.0
    assert SimulatedDevice(Device("d", 100.0, metered=True, hot=True), meter)(1.0).metered


def test_phones_with_low_batteries_decline_and_rounds_end() -> None:
    outcome = run_fleet(phone_fleet({"job.rounds": 3, "job.max_h": 1.0}, battery=0.1))
    assert (outcome.learned, outcome.energy.wake_ups) == (0, 0)
    assert outcome.exact
    charged = run_fleet(phone_fleet({"job.rounds": 3}, battery=0.1, charging_share=1.0))
    assert charged.learned > 0


def test_a_drained_battery_ends_training() -> None:
    coming = {"arrival": {"pattern": "poisson", "examples_per_hour": 20}}

    def learned(**changes: Any) -> int:
        sections = phones(**changes) | coming
        return run_fleet(
            read_fleet(document({"job.rounds": 1000, "job.max_h": 1.0}, sections))
        ).learned

    assert 0 < learned(battery=0.16, idle_w=1.0) < learned()


# -- figures by hand ----------------------------------------------------------------------------


def test_figures_by_hand_are_accounted_the_same_way() -> None:
    meter = SpeedMeter(1e6, 1e-6, wake_j=0.5)
    meter.cost(
        Training(learned_operations=10, forgotten_operations=5, scratch_operations=10 * 3 / 1)
    )
    meter.cost(Training(learned_operations=10, scratch_operations=10, wakes=False))
    energy = fleet_energy([meter.spent], wake_ups_of_everyone=3, traffic=[])
    assert (energy.wake_ups, energy.operations) == (1, 25)
    assert energy.compute_j == pytest.approx(25e-6)
    assert energy.radio_j == 0.5
    assert energy.savings.fewer_wake_ups_j == 1.0
    assert energy.savings.less_work_j == pytest.approx(15e-6)
    assert energy.savings.dvfs_j == 0.0


def test_the_slower_clock_is_credited_with_what_it_saved_alone() -> None:
    spent = Spent(
        compute=Energy(cpu_j=3.0, elapsed_s=2.0), fastest=Energy(cpu_j=4.0, elapsed_s=1.0)
    )
    energy = fleet_energy([spent], 0, [])
    assert energy.savings.dvfs_j == 1.0
    assert energy.added_latency == 1.0


def test_phones_and_figures_by_hand_may_be_mixed() -> None:
    kinds = [{"count": 5, "phone": "mi"}, {"count": 5, "operations_per_s": 1e6}]
    made = read_fleet(document({"job.rounds": 3}, {"devices": kinds, "faults": {}}))
    assert run_fleet(made).exact


def test_stragglers_among_phones_are_late_and_cost_no_more() -> None:
    keys = {"job.rounds": 1, "job.selector": "everyone"}
    quick = run_fleet(phone_fleet(keys))
    late = {"straggler_share": 1, "straggler_factor": 500}
    slow = run_fleet(read_fleet(document(keys, phones() | {"faults": late})))
    assert slow.rounds[0].duration_s > 10 * quick.rounds[0].duration_s
    assert slow.energy.compute_j == quick.energy.compute_j
    assert slow.energy_j >= quick.energy_j, "the radio's tail after the assignment lasts longer"
