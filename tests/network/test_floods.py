"""Who sends very much delays nobody else: shares of a commit, and a quota of messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from dealfl.errors import BadBytes, WriteFailed
from dealfl.network.connection import Delivery
from dealfl.network.pump import RealPump, carry
from dealfl.network.server_end import Quota, Reading, Turns, _Inbox, _Sender
from dealfl.protocol.messages import Fetch, Message, Step

PACKET = 4_096


def fetch(worker: str, number: int = 0) -> Message:
    return Fetch(job="job", worker=worker, version=number)


def commits(*packets: tuple[str, int]) -> tuple[list[list[Message]], list[str]]:
    """Return the messages of each commit, and the senders in the order of their acknowledgements.

    A packet is a sender and a number of messages; all are there before the first commit.
    """
    taken: list[list[Message]] = []
    acknowledged: list[str] = []

    def handle(messages: Iterable[Message], now_s: float) -> Step:
        taken.append(list(messages))
        return Step((), None)

    async def run() -> None:
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pump = RealPump(handle, lambda _: None, failed)
        for sender, count in packets:
            messages = [fetch(sender, number) for number in range(count)]
            pump.put(messages, lambda sender=sender: acknowledged.append(sender), sender)  # type: ignore[misc]
        while len(acknowledged) < len(packets):
            await asyncio.sleep(0)
        if failed.done():
            failed.result()

    asyncio.run(asyncio.wait_for(run(), 60))
    return taken, acknowledged


def test_an_honest_worker_waits_for_no_flood() -> None:
    flood = [("liar", PACKET)] * 3
    taken, acknowledged = commits(*flood, ("honest", 2))
    first = taken[0]
    assert [message.worker for message in first].count("honest") == 2, "in the first commit"
    assert len(first) <= 202
    assert acknowledged[0] == "honest"
    assert acknowledged[1:] == ["liar"] * 3
    numbers = [m.version for part in taken for m in part if m.worker == "liar"]  # type: ignore[union-attr]
    assert numbers == list(range(PACKET)) * 3, "all of it is handled, in order"


def test_who_sends_more_than_a_share_is_last_in_the_next_commit() -> None:
    taken, _ = commits(("liar", 500), ("a", 3), ("b", 3))
    assert [len(part) for part in taken] == [206, 200, 100]


def test_messages_beyond_the_quota_are_dropped_before_they_are_decoded() -> None:
    inbox = _Inbox(1 << 20, Quota(messages=10_000))
    delivery = Delivery("up/liar", b"DEAL\x01\x00\x90", 1, 1, 1, False)
    accepted = 0
    for _ in range(10):
        with suppress(BadBytes):
            inbox.take(delivery)
            accepted += 1
            inbox.count(delivery, PACKET)
    assert accepted == 3
    inbox.take(Delivery("up/honest", b"DEAL\x01\x00\x90", 1, 1, 1, False))


def test_what_finds_the_disk_full_is_handled_again_and_acknowledged_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dealfl.network.pump._PAUSE_S", 0.01)
    handled: list[list[str]] = []
    acknowledged: list[int] = []

    def handle(messages: Iterable[Message], now_s: float) -> Step:
        handled.append([message.worker for message in messages])
        if len(handled) <= 3:
            raise WriteFailed("ledger.db cannot be written: disk full; free disk space")
        return Step((), None)

    async def run() -> None:
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pump = RealPump(handle, lambda _: None, failed)
        pump.put([fetch("a")], lambda: acknowledged.append(1), "a")
        await asyncio.sleep(0.005)
        assert "disk full" in pump.problem
        pump.put([fetch("b")], lambda: acknowledged.append(2), "b")
        while len(acknowledged) < 2:
            await asyncio.sleep(0.005)
        assert not pump.problem
        assert not failed.done()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert handled == [["a"], ["a"], ["a"], ["a"], ["b"]], "nothing is lost, nothing twice"
    assert acknowledged == [1, 2]
    told = [record.getMessage() for record in caplog.records]
    assert ["disk full" in told[0], "written again" in told[1], len(told)] == [True, True, 2]


class Desk:
    """Packets that are read in turns; turns are counted, and taken when a test says so."""

    def __init__(self) -> None:
        self.finished: list[tuple[str, int]] = []
        self.refused: list[str] = []
        self.due: list[Callable[[], None]] = []
        self.taken = 0
        self.turns = Turns(self.due.append)

    def add(self, sender: str, messages: Iterable[Message]) -> None:
        self.turns.add(
            sender,
            Reading(
                iter(messages),
                lambda read: self.finished.append((sender, len(read))),
                lambda error: self.refused.append(f"{sender}: {error}"),
            ),
        )

    def take(self, turns: int) -> None:
        """Take some turns, or as many as there are."""
        while self.due and turns:
            self.due.pop()()
            self.taken += 1
            turns -= 1


def counted(sender: str, count: int, read: list[str]) -> Iterator[Message]:
    for number in range(count):
        read.append(sender)
        yield fetch(sender, number)


def test_a_short_packet_is_read_at_once_whatever_waits() -> None:
    desk, read = Desk(), list[str]()
    for _ in range(3):
        desk.add("liar", counted("liar", PACKET, read))
    assert read.count("liar") <= 64, "the rest waits"
    desk.add("honest", counted("honest", 2, read))
    assert desk.finished == [("honest", 2)], "without a turn of anybody else"
    desk.take(3 * PACKET)
    assert desk.finished[1:] == [("liar", PACKET)] * 3
    assert not desk.due


def test_a_long_packet_waits_for_one_turn_of_each_other_sender() -> None:
    desk, read = Desk(), list[str]()
    for _ in range(5):
        desk.add("liar", counted("liar", PACKET, read))
    desk.add("honest", counted("honest", 300, read))
    while not desk.finished:
        desk.take(1)
    assert desk.finished == [("honest", 300)]
    assert desk.taken <= 2 * (300 // 64), "its own turns, and as many of the other"


def test_packets_of_a_sender_are_finished_in_order_and_a_bad_one_is_refused_as_a_whole() -> None:
    def bad() -> Iterator[Message]:
        yield from counted("w", 200, [])
        raise BadBytes("a bad end")

    desk = Desk()
    for messages in (counted("w", 100, []), bad(), counted("w", 1, []), iter(())):
        desk.add("w", messages)
    desk.take(100)
    assert desk.finished == [("w", 100), ("w", 1), ("w", 0)]
    assert desk.refused == ["w: a bad end"]
    desk.add("w", counted("w", 64, []))
    desk.take(1)
    assert desk.finished[-1] == ("w", 64), "turns begin again"


def test_connections_are_closed_when_their_process_is_cancelled() -> None:
    closed: list[int] = []

    class Open:
        async def run(self, stopped: asyncio.Event) -> None:
            await stopped.wait()
            closed.append(1)

    async def run() -> None:
        connection: Any = Open()
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        carrying = asyncio.ensure_future(carry([connection], [], failed, asyncio.Event()))
        await asyncio.sleep(0)
        carrying.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert closed == [1]
        assert carrying.cancelled()

    asyncio.run(run())


def test_a_quota_can_be_used_up_and_not_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    quota = Quota(packets=2, messages=5, size_bytes=100)
    sender = _Sender(1_000)
    assert sender.spend(100, quota)
    assert not sender.spend(1, quota)
    sender = _Sender(1_000)
    assert [sender.spend(1, quota) for _ in range(3)] == [True, True, False]
    sender = _Sender(1_000)
    assert sender.spend(1, quota)
    sender.count(5)
    assert not sender.spend(1, quota)
