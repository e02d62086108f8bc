"""Workers that ride along: they call while other traffic has the radio on, and are served then."""

from typing import Any

import pytest

from dealfl.learners import cycles_of
from dealfl.power import PHONES, PhoneSpending
from dealfl.protocol.messages import Announce, Sleep
from dealfl.worker import PhoneMeter, Worker
from tests.federation.parts import announce, assignment, kinds, row, server, updates, welcomed

ROWS = [(f"p{number}", row(0.0, 0.5, 1.0)) for number in range(5)]


def sleep(**other: Any) -> Sleep:
    plain: dict[str, Any] = {"waiting": 3, "within_s": 1000.0, "ride_s": 200.0, "ride_any_s": 500.0}
    return Sleep(job="job", worker="w", **(plain | other))


def asleep(*, notices: bool = True, least: int = 1, **other: Any) -> Worker:
    one = welcomed(sleeps=sleep(), notices_traffic=notices, min_examples=least)
    one.handle([sleep(**other)], 1.0)
    assert one.is_asleep
    return one


def calls(one: Worker, now_s: float) -> bool:
    return kinds(one.handle([], now_s).messages) == ["Announce"]


def test_with_enough_examples_a_worker_waits_for_a_ride_and_then_calls_without_one() -> None:
    one = asleep()
    one.ingest(ROWS[:3])
    step = one.handle([], 10.0)
    assert not step.messages
    assert step.wake_at_s == 210.0
    assert not calls(one, 209.0)
    assert calls(one, 210.0)


def test_a_worker_that_was_away_while_it_could_have_ridden_waits_for_a_ride_again() -> None:
    one = asleep()
    one.ingest(ROWS[:3])
    assert not calls(one, 10.0)
    assert not calls(one, 400.0), "it should have called at 210"
    assert one.note_traffic(True, 420.0)
    assert calls(one, 420.0)


def test_a_worker_that_was_away_beyond_the_time_of_its_sleep_calls_at_once() -> None:
    one = asleep()
    one.ingest(ROWS[:3])
    assert not calls(one, 10.0)
    assert calls(one, 1400.0)


def test_a_training_on_a_ride_reports_no_tail_of_the_radio() -> None:
    phone = PHONES["honor"].over("lte")
    spent_j = {}
    for rides in (True, False):
        meter = PhoneMeter(PhoneSpending(phone, cycles_of("naive_bayes")))
        one = welcomed(sleeps=sleep(), notices_traffic=True, meter=meter)
        one.handle([sleep()], 1.0)
        one.ingest(ROWS[:3])
        assert not calls(one, 10.0)
        one.note_traffic(rides, 20.0)
        one.handle([], 20.0)
        one.handle([assignment(1)], 20.1)
        (update,) = updates(one.handle([], 25.0).messages)
        spent_j[rides] = update.energy_j
    tail_j = phone.link.tail_s * phone.link.on_a * phone.battery.voltage_v
    assert spent_j[False] - spent_j[True] == pytest.approx(
        tail_j + phone.link.promotion_j, rel=1e-4
    )


def test_with_enough_examples_a_worker_takes_the_first_ride() -> None:
    one = asleep()
    one.ingest(ROWS[:3])
    assert not calls(one, 10.0)
    assert one.note_traffic(True, 20.0)
    (told,) = one.handle([], 20.0).messages
    assert isinstance(told, Announce)
    assert (told.rides, told.waiting) == (True, 3)


@pytest.mark.parametrize(
    ("least", "now_s", "rides"),
    [(1, 400.0, False), (1, 501.0, True), (2, 501.0, False), (2, 752.0, True)],
)
def test_with_too_few_examples_a_worker_rides_late_and_with_none_to_send_even_later(
    least: int, now_s: float, rides: bool
) -> None:
    one = asleep(least=least)
    one.ingest(ROWS[:1])
    assert one.note_traffic(True, now_s) == rides
    assert calls(one, now_s) == rides


def test_a_worker_that_was_not_told_to_ride_does_not() -> None:
    one = asleep(ride_s=0.0, ride_any_s=0.0)
    one.ingest(ROWS[:2])
    assert not one.note_traffic(True, 900.0)
    one.ingest(ROWS[2:3])
    assert calls(one, 901.0), "enough wait"


def test_a_worker_that_does_not_notice_traffic_does_not_wait_for_it() -> None:
    one = asleep(notices=False)
    one.ingest(ROWS[:3])
    assert calls(one, 10.0)


def test_traffic_that_never_comes_delays_nobody_beyond_the_time_of_the_sleep() -> None:
    one = asleep(ride_s=10_000.0)
    one.ingest(ROWS)
    assert not calls(one, 999.0)
    assert calls(one, 1001.0)


def test_a_rider_that_loses_its_connection_waits_for_the_next_ride() -> None:
    one = asleep()
    one.ingest(ROWS[:3])
    one.note_traffic(True, 20.0)
    assert calls(one, 20.0)
    one.note_disconnect()
    assert one.is_asleep
    assert not calls(one, 30.0)
    assert one.note_traffic(True, 40.0)
    assert calls(one, 40.0)


@pytest.mark.parametrize(
    ("least", "waiting", "served"), [(5, 5, True), (5, 4, False), (1, 1, True), (1, 0, False)]
)
def test_the_server_takes_a_rider_with_enough_examples_for_an_update(
    least: int, waiting: int, served: bool
) -> None:
    one = server(
        min_waiting=12, min_examples_per_update=least, max_wait_s=1000.0, ttl_s=60.0,
        ride_along=True, ride_wait_s=200.0,
    )  # fmt: skip
    one.handle([announce("w", waiting=0, sleeps=True, epoch=one.epoch)], 0.0)
    call = announce("w", waiting=waiting, sleeps=True, rides=True, epoch=one.epoch)
    told = one.handle([call], 100.0).messages
    assert ("Assignment" in kinds(told)) == served
    if not served:
        (message,) = (each for each in told if isinstance(each, Sleep))
        assert (message.ride_s, message.ride_any_s) == (200.0, message.within_s / 2)
