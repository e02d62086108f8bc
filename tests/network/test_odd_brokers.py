"""Brokers that stand still, or take little at a time."""

import asyncio
import random
import socket
import ssl
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from dealfl.network import Credentials
from dealfl.network.authority import Authority
from dealfl.network.connection import Connection, Delivery

ACCEPTED = b"\x20\x03\x00\x00\x00"  # CONNACK
ACCEPTED_FEW = b"\x20\x06\x00\x00\x03\x21\x00\x03"  # with a receive maximum of 3
SMALL = b"\x30\x05\x00\x01t\x00x"  # PUBLISH with quality of service 0
NOT_AUTHORIZED = b"\xe0\x01\x87"  # DISCONNECT
PUBLISH, UNSUBSCRIBE = 3, 10


def where(port: int) -> Credentials:
    return Credentials(host="127.0.0.1", port=port, job="test", user="w1", password="x")


def types_of(packets: bytes) -> Counter[int]:
    """Return the types of small packets."""
    types = Counter[int]()
    while packets:
        types[packets[0] >> 4] += 1
        packets = packets[2 + packets[1] :]
    return types


def test_a_broker_gets_no_more_at_once_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "random", lambda: 0.0)  # no pause before it connects again
    heard = list[bytes]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(ACCEPTED_FEW)
        heard.append(await reader.read())
        writer.close()

    async def run() -> None:
        stopped = asyncio.Event()
        listener = await asyncio.start_server(answer, "127.0.0.1", 0)

        def connected() -> None:
            for _ in range(5):
                connection.publish("topic", b"")

        broker = where(listener.sockets[0].getsockname()[1])
        connection = Connection([broker], connected, lambda _: None)
        running = asyncio.ensure_future(connection.run(stopped))
        while not connection.is_up:
            assert len(heard) < 2, "it connects again and again"
            await asyncio.sleep(0.001)
        stopped.set()
        await running
        while len(heard) < 2:
            await asyncio.sleep(0.001)
        listener.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert [types_of(each)[PUBLISH] for each in heard] == [0, 3]


def test_a_broker_that_leaves_because_of_a_topic_is_named_with_the_topic() -> None:
    """Some brokers do so instead of answering."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(ACCEPTED)
        await reader.read(1_000)
        writer.write(NOT_AUTHORIZED)
        await reader.read()
        writer.close()

    async def run() -> dict[str, str]:
        stopped = asyncio.Event()
        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        broker = where(listener.sockets[0].getsockname()[1])
        connection = Connection([broker], lambda: connection.subscribe(["secret"]), lambda _: None)
        running = asyncio.ensure_future(connection.run(stopped))
        while not connection.refused:
            await asyncio.sleep(0.001)
        stopped.set()
        await running
        listener.close()
        return connection.refused

    assert asyncio.run(asyncio.wait_for(run(), 60)) == {"secret": "Not authorized"}


def test_topics_are_left_when_there_is_a_connection() -> None:
    heard = list[bytes]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(ACCEPTED)
        heard.append(await reader.read(1_000))
        writer.close()

    async def run() -> None:
        stopped = asyncio.Event()
        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        broker = where(listener.sockets[0].getsockname()[1])
        connection = Connection(
            [broker], lambda: connection.unsubscribe(["former"]), lambda _: None
        )
        connection.unsubscribe(["never subscribed"])
        running = asyncio.ensure_future(connection.run(stopped))
        while not heard:
            await asyncio.sleep(0.001)
        stopped.set()
        await running
        listener.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert types_of(heard[0]) == {UNSUBSCRIBE: 1}
    assert heard[0].endswith(b"\x00\x06former")


def test_a_large_packet_that_is_read_slowly_is_written_and_then_nothing_more() -> None:
    size = 1 << 24

    async def run(listener: socket.socket) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()

        def connected() -> None:
            connection.publish("topic", bytes(size))

        broker = where(listener.getsockname()[1])
        connection = Connection([broker], connected, lambda _: None)
        running = asyncio.ensure_future(connection.run(stopped))
        reader, _ = await loop.sock_accept(listener)
        await loop.sock_recv(reader, 1_000)
        await loop.sock_sendall(reader, ACCEPTED)
        heard = 0
        while heard < size:
            heard += len(await loop.sock_recv(reader, 1 << 20))
        assert connection._socket is not None
        assert not loop.remove_writer(connection._socket._sock), "it would be asked all the time"
        stopped.set()
        await running
        reader.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        asyncio.run(asyncio.wait_for(run(listener), 60))


def test_after_a_broker_that_reads_nothing_the_next_one_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system gives the number of the closed socket to the next one."""
    monkeypatch.setattr("dealfl.network.connection._GOODBYE_S", 0.01)

    async def run(listener: socket.socket) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()

        def connected() -> None:
            connection.publish("topic", bytes(1 << 24))

        connection = Connection(
            [where(listener.getsockname()[1])], connected, lambda _: None, is_prompt=lambda: True
        )
        running = asyncio.ensure_future(connection.run(stopped))
        deaf, _ = await loop.sock_accept(listener)
        while not connection.is_open:
            await asyncio.sleep(0.001)
        connection.rest()
        while connection.is_open:
            await asyncio.sleep(0.001)
        connection.resume()
        broker, _ = await loop.sock_accept(listener)
        await loop.sock_sendall(broker, ACCEPTED)
        while not connection.is_up:
            await asyncio.sleep(0.001)
        stopped.set()
        await running
        deaf.close()
        broker.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        asyncio.run(asyncio.wait_for(run(listener), 60))


def test_what_was_published_is_sent_before_the_connection_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dealfl.network.connection._GOODBYE_S", 60.0)
    size_bytes = 1 << 24  # more than a socket holds
    published, heard = asyncio.Event(), list[bytes]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await published.wait()
        heard.append(await reader.read())
        writer.close()

    async def run() -> None:
        stopped = asyncio.Event()
        listener = await asyncio.start_server(answer, "127.0.0.1", 0)

        def connected() -> None:
            connection.publish("topic", bytes(size_bytes))
            stopped.set()
            published.set()

        broker = where(listener.sockets[0].getsockname()[1])
        connection = Connection([broker], connected, lambda _: None, is_prompt=lambda: True)
        await connection.run(stopped)
        while not heard:
            await asyncio.sleep(0.001)
        listener.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert len(heard[0]) > size_bytes
    assert heard[0].endswith(b"\xe0\x01\x04"), "DISCONNECT, which lets the broker publish the will"


def test_all_packets_of_one_record_are_read_but_not_all_at_once(tmp_path: Path) -> None:
    """What TLS has decrypted does not make the socket readable again."""
    Authority.create(tmp_path, "test", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "broker.pem", tmp_path / "broker.key")
    heard, turns = list[Delivery](), list[int]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(ACCEPTED + 100 * SMALL)
        await reader.read()
        writer.close()

    async def run() -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        listener = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        plain = where(listener.sockets[0].getsockname()[1])
        broker = replace(plain, authority=(tmp_path / "authority.pem").read_text())

        def received(delivery: Delivery) -> None:
            heard.append(delivery)
            if len(heard) == 1:
                loop.call_soon(lambda: turns.append(len(heard)))

        connection = Connection([broker], lambda: None, received)
        running = asyncio.ensure_future(connection.run(stopped))
        while len(heard) < 100:
            await asyncio.sleep(0.001)
        stopped.set()
        await running
        listener.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert turns[0] <= 10, "others have a turn before the rest is read"
