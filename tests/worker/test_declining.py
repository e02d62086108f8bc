"""A worker that declines: the answer is not lost, and the server hears when it can train again."""

from typing import Any

from dealfl.protocol.messages import Announce, Declined, Step
from dealfl.worker import Device, Worker
from tests.federation.parts import assignment, row, updates, welcomed

HOT, COOL = Device(hot=True), Device()


def worker_that_is_hot_until(until_s: float, **other: Any) -> Worker:
    one = welcomed(device=lambda now_s: HOT if now_s < until_s else COOL, **other)
    one.ingest([(f"owner {n}", row(0.0, 0.5, 1.0)) for n in range(3)])
    return one


def kinds(step: Step) -> list[str]:
    return [type(message).__name__ for message in step.messages]


def test_a_lost_answer_is_repeated_before_each_announcement() -> None:
    one = worker_that_is_hot_until(1000.0)
    assert "Declined" in kinds(one.handle([assignment(1)], 0.0))
    assert kinds(one.handle([], 1.0)) == []
    one.reconnect()
    step = one.handle([], 2.0)
    assert kinds(step) == ["Declined", "Announce"]
    assert isinstance(step.messages[0], Declined)
    assert (step.messages[0].round, step.messages[0].reason) == (1, "hot")


def test_an_answer_is_repeated_until_the_next_assignment() -> None:
    one = worker_that_is_hot_until(10.0)
    one.handle([assignment(1)], 0.0)
    assert updates(one.handle([assignment(2)], 20.0).messages)
    one.reconnect()
    assert "Declined" not in kinds(one.handle([], 30.0))


def test_a_worker_announces_itself_as_soon_as_it_can_train_again() -> None:
    one = worker_that_is_hot_until(100.0, retry_after_s=30.0, announce_every_s=1000.0)
    step = one.handle([assignment(1)], 0.0)
    looked_s = []
    while step.wake_at_s is not None and step.wake_at_s < 100.0:
        looked_s.append(step.wake_at_s)
        step = one.handle([], step.wake_at_s)
        assert kinds(step) == []
    assert looked_s == [30.0, 60.0, 90.0]
    step = one.handle([], 120.0)
    (announced,) = [message for message in step.messages if isinstance(message, Announce)]
    assert announced.waiting == 3
    assert one.handle([], 150.0).wake_at_s == 1120.0, "nothing is left to look for"
