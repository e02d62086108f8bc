"""The radio of a phone: bursts, tails, round trips, keep-alives, and what own traffic changes."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dealfl.errors import BadInput
from dealfl.power import OwnTraffic, Phone, Radio, phone

HONOR = phone("honor")
PROMPT = HONOR.over(rtt_s=0.0)
TAIL_S = HONOR.link.tail_s
STEP_S = 0.002


def test_a_transfer_costs_its_time_on_air_awake_and_a_tail() -> None:
    radio = Radio(PROMPT)
    radio.transfer(5.0, "announcement", sent=1000)
    active_s = 1000 / HONOR.link.up_bytes_per_s
    voltage_v = HONOR.battery.voltage_v
    energy = radio.energy
    assert energy.radio_active_j == pytest.approx(HONOR.link.on_a * active_s * voltage_v)
    assert energy.radio_tail_j == pytest.approx(HONOR.link.on_a * TAIL_S * voltage_v)
    assert energy.awake_j == pytest.approx(HONOR.awake_a * active_s * voltage_v)
    assert energy.charge_uah == pytest.approx(energy.total_j / voltage_v / 3.6e-3)


def test_a_transfer_within_the_tail_cuts_it_short_and_begins_no_burst() -> None:
    near, apart = Radio(PROMPT), Radio(PROMPT)
    for radio, gap_s in ((near, TAIL_S / 2), (apart, 2 * TAIL_S)):
        radio.transfer(0.0, "announcement", sent=100)
        radio.transfer(gap_s, "receipt", received=100)
    assert near.traffic.bursts == {"announcement": 1}
    assert apart.traffic.bursts == {"announcement": 1, "receipt": 1}
    assert near.traffic.tail_s == pytest.approx(1.5 * TAIL_S, rel=0.01)
    assert apart.traffic.tail_s == pytest.approx(2 * TAIL_S)


def test_a_training_gives_its_burst_the_name() -> None:
    radio = Radio(HONOR)
    radio.transfer(0.0, "announcement", sent=100)
    radio.transfer(0.01, "training", received=100)
    assert radio.traffic.bursts == {"training": 1}
    assert radio.traffic.own_bursts == 0


def test_an_idle_connection_is_kept_alive_until_it_is_closed() -> None:
    radio = Radio(PROMPT, keep_alive_s=900.0)
    radio.connect(0.0)
    radio.disconnect(3000.0)
    radio.keep_alive(90_000.0)
    assert radio.traffic.bursts == {"keep-alive": 3}
    assert radio.traffic.tail_s == pytest.approx(3 * TAIL_S)


def test_a_shared_push_channel_needs_no_keep_alive() -> None:
    radio = Radio(PROMPT)
    radio.connect(0.0)
    radio.disconnect(90_000.0)
    assert radio.energy.total_j == 0.0


def test_every_new_connection_pays_for_its_handshake_and_three_round_trips() -> None:
    radio = Radio(HONOR.over(rtt_s=0.1), handshake_bytes=5000)
    for moment_s in (0.0, 100.0):
        radio.connect(moment_s)
        radio.connect(moment_s)
        radio.disconnect(moment_s + 1)
    assert radio.traffic.bursts == {"handshake": 2}
    assert radio.traffic.up_bytes + radio.traffic.down_bytes == 10_000
    on_air_s = 10_000 / HONOR.link.up_bytes_per_s
    assert radio.traffic.active_s == pytest.approx(2 * 3 * 0.1 + on_air_s)


def test_the_first_answer_to_what_was_sent_takes_a_round_trip() -> None:
    radio = Radio(HONOR.over(rtt_s=0.1))
    radio.transfer(0.0, "announcement", sent=1)
    radio.transfer(0.0, "announcement", received=1)
    radio.transfer(0.0, "announcement", received=1)
    radio.transfer(0.5, "receipt", sent=1)
    radio.transfer(0.5, "receipt", received=1)
    assert radio.traffic.active_s == pytest.approx(0.2, rel=1e-4)


def test_a_burst_over_lte_costs_what_was_measured_of_it() -> None:
    radio = Radio(HONOR.over("lte", rtt_s=0.0))
    radio.transfer(0.0, "training", sent=125_000)
    energy = radio.energy
    active_s = 1.0 / 5.64
    assert energy.radio_tail_j == pytest.approx(1.06 * 11.576 + 0.31)
    assert energy.radio_active_j == pytest.approx(1.29 * active_s + 0.44)


def test_an_unknown_radio_is_refused() -> None:
    with pytest.raises(BadInput, match="no radio called 'ltte'; known: lte, wifi"):
        HONOR.over("ltte")


# -- own traffic -----------------------------------------------------------------------------------


def own_of(seed: int, device: Phone) -> OwnTraffic:
    return OwnTraffic(120.0, device.link.tail_s, f"{seed}")


def spans(own: OwnTraffic, grid: np.ndarray, *, with_tails: bool) -> np.ndarray:
    """Return at which points own traffic uses the link, or has the radio on."""
    length_s = own.on_s if with_tails else own.active_s
    return np.array([length_s(float(at), float(at) + STEP_S) > STEP_S / 2 for at in grid])


def count_rises(on: np.ndarray) -> int:
    return sum(bool(b and not a) for a, b in pairwise([False, *on.tolist()]))


@pytest.mark.parametrize("seed", range(6))
def test_the_price_of_transfers_is_what_they_add_on_a_grid_of_time(seed: int) -> None:
    draw = random.Random(seed)
    device = HONOR.over(draw.choice(["lte", "wifi"]), rtt_s=0.0)
    radio = Radio(device, own=own_of(seed, device))
    now_s = 0.0
    transfers = []
    for _ in range(6):
        now_s += draw.choice([0.01, 0.5, 3.0, 20.0]) * draw.random()
        size = draw.randrange(500_000)
        radio.transfer(now_s, "training", sent=size)
        transfers.append((now_s, size / device.link.up_bytes_per_s))
    grid = np.arange(0.0, now_s + 15.0, STEP_S)
    link = spans(own_of(seed, device), grid, with_tails=False)
    own = spans(own_of(seed, device), grid, with_tails=True)
    ours = np.zeros(len(grid), dtype=bool)
    shared = 0
    busy_until_s = 0.0
    for at_s, length_s in transfers:
        begin_s = max(at_s, busy_until_s)
        busy_until_s = begin_s + length_s
        ours |= (grid >= begin_s) & (grid < busy_until_s + device.link.tail_s)
        shared += int((link & (grid >= begin_s) & (grid < busy_until_s)).sum())
    added_s = STEP_S * (int((ours | own).sum()) - int(own.sum()) + shared)
    assert radio.traffic.added_s == pytest.approx(added_s, abs=20 * STEP_S)
    assert radio.traffic.promotions == count_rises(ours | own) - count_rises(own)


def test_a_ride_costs_a_fraction_of_a_call() -> None:
    device = HONOR.over("lte", rtt_s=0.0)
    riding, calling = Radio(device, own=own_of(1, device)), Radio(device)
    own = own_of(1, device)
    for radio in (riding, calling):
        radio.transfer(own.next_start_s(0.0) + 0.1, "training", sent=10_000)
    assert riding.traffic.rides == 1
    assert riding.energy.total_j < 0.1 * calling.energy.total_j
    assert riding.traffic.promotions == 0


def test_own_traffic_is_rarer_at_night_and_the_same_for_the_same_seed() -> None:
    twice = [OwnTraffic(30.0, 0.0, "seed") for _ in range(2)]
    counts = [
        [own.count_starts(3600.0 * hour, 3600.0 * (hour + 8)) for hour in (0, 15)] for own in twice
    ]
    assert counts[0] == counts[1]
    by_day, by_night = counts[0]
    assert 150 < by_day < 300
    assert 30 < by_night < 100


def test_shorter_own_transfers_keep_the_radio_on_for_less() -> None:
    long, short = (OwnTraffic(15.0, 0.0, "seed", scale) for scale in (1.0, 0.2))
    assert short.on_s(0.0, 36_000.0) < 0.3 * long.on_s(0.0, 36_000.0)


def test_a_profile_with_another_link_is_another_phone() -> None:
    slow = replace(HONOR, link=replace(HONOR.link, up_bytes_per_s=1e4))
    radios = Radio(HONOR), Radio(slow)
    for radio in radios:
        radio.transfer(0.0, "training", sent=10**5)
    assert radios[1].energy.total_j > 10 * radios[0].energy.total_j
