"""The radio of a phone: bursts, tails, keep-alives and handshakes."""

import pytest

from dealfl.power import EnergyModel, Radio, phone

HONOR = phone("honor")
TAIL_S = HONOR.wifi.tail_s


def test_a_single_transfer_costs_what_the_energy_model_says() -> None:
    radio = Radio(HONOR)
    radio.transfer(5.0, "announcement", sent=1000)
    alone = EnergyModel(HONOR).transfer(1000 / HONOR.wifi.bytes_per_s)
    assert radio.energy.total_j == pytest.approx(alone.total_j)
    assert radio.energy.charge_uah == pytest.approx(alone.charge_uah)


def test_a_transfer_within_the_tail_cuts_it_short_and_begins_no_burst() -> None:
    near, apart = Radio(HONOR), Radio(HONOR)
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
    radio = Radio(HONOR, keep_alive_s=900.0)
    radio.connect(0.0)
    radio.disconnect(3000.0)
    radio.keep_alive(90_000.0)
    assert radio.traffic.bursts == {"keep-alive": 3}
    assert radio.traffic.tail_s == pytest.approx(3 * TAIL_S)


def test_a_shared_push_channel_needs_no_keep_alive() -> None:
    radio = Radio(HONOR)
    radio.connect(0.0)
    radio.disconnect(90_000.0)
    assert radio.energy.total_j == 0.0


def test_every_new_connection_pays_for_its_handshake() -> None:
    radio = Radio(HONOR, handshake_bytes=5000)
    for moment_s in (0.0, 100.0):
        radio.connect(moment_s)
        radio.connect(moment_s)
        radio.disconnect(moment_s + 1)
    assert radio.traffic.bursts == {"handshake": 2}
    assert radio.traffic.up_bytes + radio.traffic.down_bytes == 10_000
