"""Workers that sleep: a call with nothing to train ends in sleep, and the assignment waits on."""

from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.protocol.messages import Assignment, Erase, Message, Receipt, Sleep
from dealfl.server import Server
from tests.federation.parts import (
    announce,
    assignment,
    kinds,
    row,
    server,
    update,
    updates,
    welcomed,
)


def parts(messages: tuple[Message, ...]) -> tuple[list[int], int]:
    """Return the rounds that a worker is assigned, and how often it is sent to sleep."""
    rounds = [one.round for one in messages if isinstance(one, Assignment)]
    return rounds, sum(isinstance(one, Sleep) for one in messages)


def booked() -> Server:
    """Return a server that has sent its worker to sleep, and then selected it."""
    one = server(min_waiting=3, max_wait_s=100.0, ttl_s=60.0)
    one.handle([announce(incarnation=0, waiting=3, sleeps=True)], 0.0)
    known = announce(waiting=3, sleeps=True, epoch=one.epoch)
    assert parts(one.handle([known], 1.0).messages) == ([], 0), "its assignment is under way"
    assert parts(one.handle([update(1, 3, round=1)], 2.0).messages) == ([], 1)
    assert [one.reason for one in one.reader.closed_rounds()] == ["majority", "booked"]
    return one


def test_an_assignment_waits_until_a_sleeping_worker_calls() -> None:
    one = booked()
    call = announce(waiting=3, sleeps=True, epoch=one.epoch, round=1)
    assert parts(one.handle([call], 50.0).messages) == ([2], 0)


def test_a_worker_that_calls_with_nothing_to_train_sleeps_again() -> None:
    one = booked()
    empty = announce(waiting=0, sleeps=True, epoch=one.epoch, round=1)
    assert parts(one.handle([empty], 102.5).messages) == ([], 1), "its time is over"
    call = announce(waiting=3, sleeps=True, epoch=one.epoch, round=1)
    assert parts(one.handle([call], 150.0).messages) == ([2], 0)


def test_examples_that_come_before_it_sleeps_are_trained_at_once() -> None:
    one = booked()
    one.erase("r", [b"hash"], 3.0)
    lacking = announce(waiting=0, sleeps=True, epoch=one.epoch, round=1)
    assert parts(one.handle([lacking], 102.5).messages) == ([], 0), "it hears of the erasure first"
    call = announce(waiting=3, sleeps=True, epoch=one.epoch, round=1)
    assert parts(one.handle([call], 103.0).messages)[0] == [2]


def test_a_worker_sleeps_after_an_update_that_answers_no_assignment() -> None:
    one = booked()
    (order,) = one.erase("r", [b"hash"], 3.0).messages
    assert isinstance(order, Erase)
    call = announce(waiting=0, sleeps=True, epoch=one.epoch, round=1)
    assert parts(one.handle([call], 170.0).messages) == ([], 0), "it hears of the erasure first"
    done = replace(call, erased=(order.after,), training=True)
    assert parts(one.handle([done], 170.1).messages) == ([], 0), "its update is on the way"
    assert parts(one.handle([update(2, -1)], 170.2).messages) == ([], 1)


@pytest.mark.parametrize(
    ("news", "is_heard"), [({}, False), ({"sequence": 2}, True), ({"session": 7}, True)]
)
def test_a_call_with_an_update_that_was_not_sent_yet_is_heard(news: Any, is_heard: bool) -> None:
    one = booked()
    one.erase("r", [b"hash"], 3.0)
    call = announce(waiting=0, sleeps=True, epoch=one.epoch, training=True, sequence=1)
    answers = kinds(one.handle([replace(call, **news)], 50.0).messages)
    assert answers == ["Erase"] * is_heard, "else it is older than the update that has arrived"


@pytest.mark.parametrize("sent_to_sleep", [True, False])
def test_a_worker_announces_itself_after_a_receipt_unless_it_is_sent_to_sleep(
    sent_to_sleep: bool,
) -> None:
    one = welcomed(sleeps=Sleep(job="job", worker="w", waiting=1, within_s=100.0))
    one.ingest([("ann", row(0.0, 0.5, 1.0))])
    one.handle([], 1.0)
    (sent,) = updates(one.handle([assignment(1)], 2.0).messages)
    key = {name: getattr(sent, name) for name in ("session", "incarnation", "sequence")}
    answer: list[Message] = [Receipt(job="job", worker="w", **key)]
    if sent_to_sleep:
        answer.append(Sleep(job="job", worker="w", waiting=5, within_s=100.0))
    assert kinds(one.handle(answer, 3.0).messages) == ["Announce"] * (not sent_to_sleep)
    assert one.is_asleep == sent_to_sleep
