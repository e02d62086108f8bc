"""Devices that the broker let in, with their own secrets, and bad intentions."""

import random
import struct
import time
import tracemalloc
import zlib
from collections.abc import Iterator

import msgspec
import pytest

from dealfl.network import Quota
from dealfl.protocol.messages import (
    Assignment,
    Erase,
    ErasedReceipt,
    Message,
    Published,
    Receipt,
    Verdict,
    Welcome,
)
from dealfl.protocol.transport import decode, encode, pack, split
from tests.federation.parts import announce, examples, kinds, server, update
from tests.network.brokers import RunningBroker, start_broker
from tests.network.serving import TOP, Phone, Served, serve
from tests.network.strangers import Stranger


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    broker = start_broker(tmp_path_factory.mktemp("server") / "broker", job="job")
    yield broker
    broker.kill()


@pytest.fixture
def served(running: RunningBroker) -> Iterator[Served]:
    with serve(running.server, make=server, quota=Quota(packets=60, size_bytes=1 << 20)) as one:
        yield one


@pytest.fixture
def phones(running: RunningBroker, served: Served) -> Iterator[tuple[Phone, Phone]]:
    pair = Phone(running.enrol("w1"), served.epoch), Phone(running.enrol("w2"), served.epoch)
    for phone in pair:
        phone.join()
    yield pair
    for phone in pair:
        phone.leave()


def holds(served: Served, count: int) -> bool:
    """Close the round, and return whether exactly this many honest examples count."""

    def close() -> bool:
        served.server.handle((), time.time() + 3600.0)
        return served.server.model.statistics == examples(count)

    return served.do(close)


def settle(phone: Phone, sequence: int = 1) -> None:
    """Send an honest update; with its receipt, all that arrived before is handled."""
    phone.say(update(sequence, name=phone.worker))

    def receipts() -> list[int]:
        messages = [one for _, packet in phone.received for one in decode(packet)]
        return [one.sequence for one in messages if isinstance(one, Receipt)]

    assert phone.wait(lambda: sequence in receipts())
    phone.received.clear()


def test_a_message_in_the_name_of_another_is_dropped(
    served: Served, phones: tuple[Phone, Phone]
) -> None:
    liar, victim = phones
    forged = update(1, count=9, name="w2")
    assert liar.say(forged) == "Success"  # the topic is the liar's own
    liar.say(announce("w1"), forged)
    liar.say(announce("w2", 0, journal_id="stolen"))
    liar.say(update(1, count=9, name=""))
    liar.say(msgspec.structs.replace(update(1, name="w1"), job="another job"))
    settle(liar)
    settle(victim)
    assert served.do(lambda: served.end.dropped) == {"w1": 5}
    assert served.do(lambda: served.server.workers["w2"].journal_id) == "journal of w2"
    assert holds(served, 2)


def test_a_recorded_packet_counts_once_and_only_from_its_sender(
    served: Served, phones: tuple[Phone, Phone]
) -> None:
    thief, victim = phones
    packets = [encode([announce("w2")]), encode([update(1, name="w2")])]
    for packet in packets * 5:
        victim.publish(victim.up, packet)
        thief.publish(thief.up, packet)
    for packet in [encode([announce("w2", 0)]), encode([announce("w2", receipted=0)])] * 3:
        victim.publish(victim.up, packet)  # what it once said, too
    settle(victim, 2)
    settle(thief)
    assert served.do(lambda: served.server.workers["w2"].incarnation) == 1
    assert holds(served, 3)


def test_two_contents_under_one_key_count_once_and_are_flagged(
    served: Served, phones: tuple[Phone, Phone]
) -> None:
    liar, other = phones
    settle(liar)
    liar.say(update(1, count=5, name="w1"))
    answers = liar.hear(1)
    assert kinds(tuple(answers))[0] == "Refusal"
    settle(other)
    assert served.do(lambda: served.server.workers["w1"].flag)
    assert holds(served, 1)  # the liar starts again, as a new incarnation


def test_what_only_the_server_says_does_nothing_when_a_worker_says_it(
    served: Served, phones: tuple[Phone, Phone]
) -> None:
    liar, victim = phones
    statistics = examples(99).to_bytes()
    orders: list[Message] = [
        Erase(job="job", worker="w1", request="r", owners=(b"0" * 32,)),
        Welcome(job="job", worker="w1", incarnation=7, journal_id="journal of w1"),
        Assignment(job="job", worker="w1", round=99, deadline_s=1e12),
        Published(job="job", worker="w1", version=9, digest="d", statistics=statistics),
        Receipt(job="job", worker="w1", incarnation=1, sequence=1),
        Verdict(job="job", worker="w1", incarnation=1, sequence=1, withdrawn=True),
        ErasedReceipt(job="job", worker="w1", request="r"),
    ]
    for order in orders:
        liar.say(order)
    settle(liar)
    settle(victim)
    assert not served.do(lambda: served.server.reader.erasures())
    assert served.do(lambda: served.server.workers["w1"].incarnation) == 1
    assert holds(served, 2)


def test_a_flood_is_dropped_beyond_its_quota_and_others_are_served(
    served: Served, phones: tuple[Phone, Phone]
) -> None:
    flooder, other = phones
    before = served.do(lambda: served.end.connections[0].traffic.received_packets)
    for _ in range(200):
        flooder.client.publish(flooder.up, encode([announce("w1")]), 1)
    flooder.publish(flooder.up, b"the last one")
    settle(other)
    assert served.do(lambda: served.end.connections[0].traffic.received_packets) == before + 202
    assert 100 <= served.do(lambda: served.end.dropped["w1"]) <= 201  # the quota grows meanwhile
    assert holds(served, 1)


def test_a_flood_of_bytes_is_dropped_beyond_its_quota(
    served: Served, phones: tuple[Phone, Phone]
) -> None:
    flooder, other = phones
    for _ in range(20):
        flooder.client.publish(flooder.up, bytes(90_000), 1)
    noise = random.Random(0).randbytes(90_000)  # the server would refuse it, and say so
    flooder.say(msgspec.structs.replace(update(1, name="w1"), delta=noise))
    settle(other)
    assert served.do(lambda: served.end.dropped) == {"w1": 21}
    flagged = served.do(lambda: {one.name: one.flag for one in served.server.workers.values()})
    assert flagged["w1"].startswith("packet refused: not a dealfl packet")
    assert not flagged["w2"]
    assert holds(served, 1)


def test_a_flood_of_packets_of_other_epochs_has_one_quota(
    served: Served, phones: tuple[Phone, Phone]
) -> None:
    flooder, other = phones
    for number in range(200):
        flooder.client.publish(f"{TOP}/epoch-{number}/up/w1/w1", encode([]), 1)
    flooder.publish(flooder.up, b"the last one")
    settle(other)
    assert 100 <= served.do(lambda: served.end.dropped["w1"]) <= 201  # the quota grows meanwhile
    assert holds(served, 1)


def test_packets_that_the_server_cannot_slow_down_are_dropped(
    served: Served, phones: tuple[Phone, Phone]
) -> None:
    flooder, other = phones
    for _ in range(50):
        flooder.client.publish(flooder.up, encode([update(1, count=2, name="w1")]), 0)
    settle(flooder)
    settle(other)
    assert served.do(lambda: served.end.dropped) == {"w1": 50}
    assert holds(served, 2)


def test_nothing_that_a_device_sends_is_retained(
    running: RunningBroker, served: Served, phones: tuple[Phone, Phone]
) -> None:
    """A retained packet would come again with every connection of the server."""
    litterer, other = phones
    topics = [litterer.up, f"{TOP}/another-epoch/up/w1/w1", f"{TOP}/left/w1"]
    for topic in topics:
        litterer.publish(topic, encode([update(1, count=3, name="w1")]), retain=True)
    settle(litterer)
    settle(other)
    assert served.do(lambda: served.end.dropped) == {"w1": 3}
    assert holds(served, 2)
    served.stop()
    listener = Stranger(running.server).connect()
    listener.subscribe(f"{TOP}/#", f"{TOP}/mark")
    mark = (f"{TOP}/mark", b"")
    listener.publish(*mark)
    assert listener.wait(lambda: mark in listener.received)
    assert not {topic for topic, _ in listener.received} & {*topics}
    listener.leave()


def test_what_is_too_large_or_not_what_it_states_is_dropped(
    running: RunningBroker, served: Served, phones: tuple[Phone, Phone]
) -> None:
    bomber, other = phones
    bomb, head = zlib.compress(bytes(1 << 26), 9), b"DEAL\x01"
    assert len(bomb) < 90_000
    lies = [struct.pack("<I", length) + bomb for length in (10, 1 << 26, (1 << 26) + 1)]
    bad = [
        b"", b"\x00", b"DEAL", head, head + b"\x07", head + b"\x00garbage",
        *(head + b"\x01" + lie for lie in lies),
        head + b"\x02" + struct.pack("<32sIII", bytes(32), 0, 2, 1 << 31) + bytes(600),
        head + b"\x00" + b"\x91" * 50_000,  # lists in lists
        head + b"\x00\xdd\xff\xff\xff\xff",  # a list of 2³² messages
    ]  # fmt: skip
    for packet in bad:
        bomber.publish(bomber.up, packet)
    draw = random.Random(1)
    valid = encode([update(1, name="w1")])
    for _ in range(20):
        place = draw.randrange(len(valid))
        bomber.publish(bomber.up, valid[:place] + draw.randbytes(3) + valid[place + 3 :])
    settle(other)
    assert served.do(lambda: served.end.dropped["w1"]) >= len(bad)
    fat = Phone(running.enrol("w3"), served.epoch)
    assert fat.publish(fat.up, bytes(200_000)) == "no answer"  # the broker ends the connection
    settle(other, 2)


def test_pieces_of_many_packets_share_a_bounded_memory(running: RunningBroker) -> None:
    names = tuple(f"h{number}" for number in range(40))
    where = running.enrol("hoarder", workers=names)
    noise = random.Random(0).randbytes(900_000)
    pieces = split(b"DEAL\x01\x00" + noise, 90_000)[:-1]
    with serve(running.server, make=server, max_bytes=1 << 20) as served:
        honest = Phone(running.enrol("w1"), served.epoch)
        honest.join()
        hoarder = Stranger(where).connect()
        tracemalloc.start()
        for name in names:
            for piece in pieces:
                hoarder.publish(f"{TOP}/{served.epoch}/up/hoarder/{name}", piece)
        settle(honest)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert held < 6 << 20, f"{held:,} bytes of pieces; 33 MB were sent"
        long = split(encode([update(2, name="w1", delta=examples(1))]), 600)
        assert len(long) >= 1
        for piece in long:
            honest.publish(honest.up, piece)
        assert honest.hear(1)


def test_a_gateway_is_the_way_to_its_own_workers_and_to_no_others(
    running: RunningBroker, served: Served, phones: tuple[Phone, Phone]
) -> None:
    thief, _ = phones
    hub = running.enrol("hub", workers=("w4", "w5"))
    fourth = Phone(hub, served.epoch, "w4")
    fourth.join()
    for topic in (f"{TOP}/{served.epoch}/up/w1/w4", f"{TOP}/{served.epoch}/up/hub/w4"):
        forged = encode([announce("w4", 1)])
        assert thief.publish(topic, forged) == "Not authorized"
    thief.subscribe(f"{TOP}/{served.epoch}/down/w1/w4", f"{TOP}/{served.epoch}/down/hub/w4")
    settle(fourth)
    assert not thief.received


def test_a_worker_that_leaves_is_asleep_until_it_announces_itself(
    served: Served, phones: tuple[Phone, Phone]
) -> None:
    gone, other = phones
    gone.publish(f"{TOP}/left/w1", pack(b""))
    settle(other)

    def asleep() -> list[bool]:
        return [served.server.workers[name].asleep for name in ("w1", "w2")]

    assert served.do(asleep) == [True, False]
    gone.say(announce("w1"))
    settle(gone)
    assert served.do(asleep) == [False, False]
