"""Operators ask a running server: authenticated by the broker, trusted by the server."""

import asyncio
import errno
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import msgspec
import pytest

from dealfl.cli import main
from dealfl.errors import BadInput, DealError
from dealfl.network import Control, ServerEnd, ask, write_credentials
from dealfl.protocol.transport import pack, unpack
from dealfl.runs import RunFolder, answers_about
from dealfl.server import Ledger, Server
from tests.federation.parts import bayes
from tests.network.brokers import JOB, RunningBroker
from tests.runs.made_runs import make_run


def greet(name: str) -> dict[str, str]:
    return {"hello": name}


ANSWERS: dict[str, Callable[..., object]] = {
    "greet": greet,
    "erase": lambda operator: f"done for {operator}",
}


@contextmanager
def served(
    broker: RunningBroker,
    trusted: tuple[str, ...] = (),
    answers: dict[str, Callable[..., object]] = ANSWERS,
) -> Iterator[None]:
    """Serve questions in a thread."""
    ready, over = Event(), Event()
    control = Control(answers, changes=("erase",), trusted=trusted)
    credentials = broker.server

    async def serve() -> None:
        stopped = asyncio.Event()
        server = Server(JOB, bayes, Ledger())
        end = ServerEnd(server, [credentials], answer=control.answer)
        task = asyncio.ensure_future(end.run(stopped))
        while not over.is_set():
            if end.connections[0].is_up:
                ready.set()
            await asyncio.sleep(0.01)
        stopped.set()
        await task

    thread = Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        over.set()
        thread.join()


def test_an_operator_gets_an_answer_and_only_trusted_ones_change_something(
    broker: RunningBroker,
) -> None:
    ann, bob = broker.broker.enrol(["ann", "bob"], operator=True)
    with served(broker, trusted=("ann",)):
        assert ask(bob, "greet", {"name": "you"}) == {"hello": "you"}
        assert ask(ann, "erase") == "done for ann"
        with pytest.raises(BadInput, match=r"bob may not erase; .* --trust bob"):
            ask(bob, "erase")
        with pytest.raises(BadInput, match="no verb 'status'; known: greet, erase"):
            ask(ann, "status")


def test_an_operator_sees_the_model_and_where_it_comes_from(
    broker: RunningBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = make_run(tmp_path / "run")
    path = tmp_path / "ann.toml"
    write_credentials(path, broker.broker.enrol(["ann"], operator=True)[0])
    with served(broker, answers=answers_about(RunFolder.at(tmp_path / "run"))):
        assert main(["model", "info", str(path), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert info["origin"] == f"the server of {path}"
    assert info["digest"] == outcome.digest


def test_a_worker_gets_no_answer(broker: RunningBroker) -> None:
    worker = broker.enrol("w1")
    with served(broker, trusted=("w1",)), pytest.raises(DealError, match="no answer within"):
        ask(worker, "greet", {"name": "you"}, timeout_s=0.7)


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"", "truncated"),
        (b"\xff", ""),
        (b'{"id": "1"}', "verb"),
        (b'{"id": "1", "verb": "greet", "arguments": {"who": 1}}', "unexpected"),
        (b'{"id": "1", "verb": "greet", "more": 1}', "unknown field"),
        (b" " * (1 << 24), "the limit"),
        (b'{"id": "' + b"1" * 100 + b'", "verb": "greet"}', "length"),
        (b'{"id": "1", "verb": "greet", "arguments": {"name": ' + b"[" * 100_000, "recursion"),
    ],
)
def test_what_is_wrong_with_a_question_is_the_answer(payload: bytes, problem: str) -> None:
    answer = msgspec.json.decode(unpack(Control(ANSWERS).answer("ann", pack(payload))))
    assert problem in answer["error"]
    assert answer["error"]
    assert answer["result"] is None


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left"),
        (KeyError("carol"), "the server could not answer: KeyError"),
    ],
)
def test_a_question_that_fails_is_answered_and_others_are(error: Exception, problem: str) -> None:
    def fail() -> None:
        raise error

    control = Control({**ANSWERS, "model": fail})
    answer = msgspec.json.decode(
        unpack(control.answer("ann", pack(b'{"id": "1", "verb": "model"}')))
    )
    assert problem in answer["error"]
    assert "carol" not in answer["error"]


def test_a_question_has_room_for_a_hundred_thousand_owners() -> None:
    control = Control({"erase": lambda owners: len(owners)})
    owners = [f"{number:066x}" for number in range(100_000)]
    question = {"id": "7", "verb": "erase", "arguments": {"owners": owners}}
    answer = msgspec.json.decode(unpack(control.answer("ann", pack(msgspec.json.encode(question)))))
    assert answer == {"id": "7", "result": 100_000, "error": ""}


def test_a_repeated_question_is_answered_again_but_done_once() -> None:
    done: list[str] = []
    control = Control(
        {"erase": lambda operator: done.append(operator)}, changes=("erase",), trusted=("ann",)
    )
    question = pack(b'{"id": "7", "verb": "erase"}')
    assert control.answer("ann", question) == control.answer("ann", question)
    assert done == ["ann"]
    control.answer("bob", question)
    assert done == ["ann"]
    for other in range(200):
        control.answer("ann", pack(b'{"id": "q%d", "verb": "erase"}' % other))
    assert len(done) == 201
