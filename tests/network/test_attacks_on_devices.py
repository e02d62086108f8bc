"""What is at the broker's port, or in the server's name, and is neither."""

import asyncio
import logging

import pytest

from dealfl.errors import BadBytes
from dealfl.network import Credentials, ServerState
from dealfl.network.connection import Connection

ACCEPTED = b"\x20\x03\x00\x00\x00"  # CONNACK
NO_TEXT = b"\x30\x07\x00\x04\xff\x04\xb3\x04\x00"  # PUBLISH to a topic that is no text


@pytest.mark.parametrize(
    "state",
    [
        b'{"epoch": "a/#"}',
        b'{"epoch": "' + b"x" * 70_000 + b'"}',
        b'{"max_bytes": -1}',
        b'{"max_bytes": 9223372036854775807}',
        b'{"inline_bytes": 0}',
        b'{"spread_s": 1e300}',
        b'{"spread_s": -1.0}',
        b'{"other": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda state: state[:16].decode(),
)
def test_a_state_of_a_server_is_bounded(state: bytes) -> None:
    with pytest.raises(BadBytes, match="state cannot be decoded"):
        ServerState.decode(state)


def test_a_port_that_answers_nonsense_is_named_and_tried_again_without_haste(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = list[int]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(1)
        await reader.read(1_000)
        writer.write(ACCEPTED + NO_TEXT)
        await reader.read()
        writer.close()

    async def run() -> None:
        stopped = asyncio.Event()
        unforeseen = list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda _, what: unforeseen.append(what))
        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        where = Credentials(host="127.0.0.1", port=port, job="test", user="w1", password="x")
        connection = Connection([where], lambda: None, lambda _: None)
        running = asyncio.ensure_future(connection.run(stopped))
        while len(calls) < 3:
            await asyncio.sleep(0.01)
        assert not unforeseen
        stopped.set()
        await running
        listener.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(run(), 60))
    told = [record.getMessage() for record in caplog.records]
    assert "w1: no connection to 127.0.0.1: a packet of the broker cannot be read" in told[0]
    assert len(told) <= len(calls)
