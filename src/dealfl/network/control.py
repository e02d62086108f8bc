"""Questions of operators to a running server, over the broker that authenticated them.

A question is a verb with arguments, an answer is its result or an error, both in JSON. Verbs that
change something are for the operators that the server was started with.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from dealfl.errors import BadBytes, BadInput, DealError, WriteFailed
from dealfl.network.connection import Connection, Delivery
from dealfl.network.credentials import Credentials
from dealfl.network.topics import Topics
from dealfl.protocol import Assembly, pack, split, unpack

_LOG = logging.getLogger("dealfl.network")
_MAX_QUESTION = 1 << 23  # 100,000 owners to erase
_REPEAT_S = 1.0
_REMEMBERED = 64  # answers, for questions that arrive again
_MAX_KEPT = 1 << 16  # bytes of an answer that changes nothing
_WRONG = (
    DealError,
    msgspec.MsgspecError,
    TypeError,
    UnicodeDecodeError,
    RecursionError,
    OSError,  # such as a full disk
)

Short = Annotated[str, Meta(max_length=64)]


class Question(Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator wants to know or to change."""

    id: Short
    verb: Short
    arguments: dict[str, Any] = {}


class Answer(Struct, frozen=True):
    """The result of a question, or what is wrong with it."""

    id: str
    result: Any = None
    error: str = ""


class Control:
    """Answers the questions of operators; `changes` are the verbs for `trusted` operators only."""

    def __init__(
        self,
        answers: Mapping[str, Callable[..., object]],
        changes: Collection[str] = (),
        trusted: Collection[str] = (),
    ) -> None:
        self._answers = answers
        self._changes = changes
        self._trusted = trusted
        self._given: dict[tuple[str, str], bytes] = {}

    def answer(self, operator: str, packet: bytes) -> bytes:
        """Return the answer to a question; whatever is wrong with it is part of the answer."""
        question = Question("", "")
        try:
            question = msgspec.json.decode(unpack(packet, _MAX_QUESTION), type=Question)
            given = self._given.get((operator, question.id))
            if given is not None:
                return given  # the same question again: nothing is done twice
            answer = Answer(question.id, self._call(operator, question))
        except _WRONG as error:
            answer = Answer(question.id, error=str(error))
            if isinstance(error, WriteFailed):  # nothing was changed; the operator asks again
                extra = {"deal_event": "change refused", "deal_reason": str(error)}
                _LOG.warning("%s of %s refused: %s", question.verb, operator, error, extra=extra)
        except Exception as error:  # nothing that an operator asks may end the server
            kind = type(error).__name__
            answer = Answer(question.id, error=f"the server could not answer: {kind}")
            extra = {"deal_event": "question failed", "deal_worker": operator, "deal_reason": kind}
            _LOG.exception("%s of %s failed", question.verb, operator, extra=extra)
        given = pack(msgspec.json.encode(answer))
        if not question.id or (question.verb not in self._changes and len(given) > _MAX_KEPT):
            return given  # what is only read can be read again
        if len(self._given) >= _REMEMBERED:
            del self._given[next(iter(self._given))]
        self._given[operator, question.id] = given
        return given

    def _call(self, operator: str, question: Question) -> object:
        verb = question.verb
        if verb not in self._answers:
            raise BadInput(f"no verb {verb!r}; known: {', '.join(self._answers)}")
        if verb in self._changes and operator not in self._trusted:
            raise BadInput(
                f"{operator} may not {verb}; start the server with --trust {operator} to allow it"
            )
        who = {"operator": operator} if verb in self._changes else {}
        return self._answers[verb](**question.arguments, **who)


def ask(
    credentials: Credentials,
    verb: str,
    arguments: Mapping[str, object] | None = None,
    timeout_s: float = 10.0,
) -> Any:  # noqa: ANN401
    """Ask a running server."""
    question = Question(secrets.token_hex(8), verb, dict(arguments or {}))
    try:
        answer = asyncio.run(_Asking(credentials, question).run(timeout_s))
    except TimeoutError:
        where = f"{credentials.host}:{credentials.port}"
        raise DealError(
            f"no answer within {timeout_s:g} s: is the server connected to {where}, and is "
            f"{credentials.user} enrolled as an operator?"
        ) from None
    if answer.error:
        raise BadInput(answer.error)
    return answer.result


class _Asking:
    """One question on its own connection."""

    def __init__(self, credentials: Credentials, question: Question) -> None:
        self._credentials = credentials
        self._question = question
        self._topics = Topics(credentials.job)
        self._assembly = Assembly()

    async def run(self, timeout_s: float) -> Answer:
        stopped = asyncio.Event()
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._connection = Connection(self._credentials.nodes(), self._connected, self._received)
        tasks = [asyncio.ensure_future(self._connection.run(stopped))]
        tasks.append(asyncio.ensure_future(self._repeat(stopped)))
        try:
            async with asyncio.timeout(timeout_s):  # wait_for can lose a Ctrl-C
                return await self._answer
        finally:
            stopped.set()
            await asyncio.gather(*tasks)

    async def _repeat(self, stopped: asyncio.Event) -> None:
        """Send the question again: the server may not have been there."""
        while not stopped.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), _REPEAT_S)
            self._ask()

    def _ask(self) -> None:
        for piece in split(pack(msgspec.json.encode(self._question))):
            self._connection.publish(self._topics.ask(self._credentials.user), piece)

    def _connected(self) -> None:
        self._connection.subscribe([self._topics.answer(self._credentials.user)])
        self._ask()

    def _received(self, delivery: Delivery) -> None:
        self._connection.acknowledge(delivery)
        with suppress(BadBytes, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            packet = self._assembly.add(delivery.payload)
            if packet is None:
                return
            answer = msgspec.json.decode(unpack(packet), type=Answer)
            if answer.id in (self._question.id, "") and not self._answer.done():
                self._answer.set_result(answer)
