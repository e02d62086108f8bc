"""Topics of a job, and the state that its server publishes.

Topics contain the epoch of the ledger, so old messages reach nobody.

    dealfl/v1/JOB/state                     server → all     epoch and limits, retained
    dealfl/v1/JOB/EPOCH/all                 server → all     requests to all workers
    dealfl/v1/JOB/EPOCH/model/PIECE         server → all     the published version, retained
    dealfl/v1/JOB/EPOCH/model/version       server → all     its number, retained
    dealfl/v1/JOB/EPOCH/up/GATEWAY/WORKER   worker → server
    dealfl/v1/JOB/EPOCH/down/GATEWAY/WORKER server → worker
    dealfl/v1/JOB/0/up/GATEWAY/WORKER       worker → server  asks for the state
    dealfl/v1/JOB/0/down/GATEWAY/WORKER     server → worker  the state
    dealfl/v1/JOB/left/GATEWAY              gateway's will   its workers are asleep
    dealfl/v1/JOB/control/ask/OPERATOR      operator → server
    dealfl/v1/JOB/control/answer/OPERATOR   server → operator

What is retained saves time, and nobody relies on it: nodes of a clustered broker retain for
themselves only. A worker that sees no state asks for it with a packet in the epoch 0, which the
server answers there; it answers packets of any epoch but its own in this way.

A worker with a connection of its own is its own gateway. The broker lets a user write only to
topics with its own name as the gateway: the sender of a message is what the broker authenticated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta

from dealfl.errors import BadBytes
from dealfl.protocol import INLINE_BYTES, MAX_BYTES, PROTOCOL, Name

LOBBY = "0"  # the epoch of those who do not know the server's

Epoch = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,64}\Z")]  # part of a topic
Size = Annotated[int, Meta(ge=1, le=MAX_BYTES)]
Spread = Annotated[float, Meta(ge=0.0, le=3600.0)]
Path = Annotated[tuple[Name, ...], Meta(max_length=64)]


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a job in an epoch; an empty epoch gives the patterns of all epochs.

    >>> Topics("digits", "7f").up("w1", "w1")
    'dealfl/v1/digits/7f/up/w1/w1'
    >>> Topics("digits", "7f").parse("dealfl/v1/digits/7f/up/w1/w1")
    ('up', 'w1', 'w1')
    """

    job: str
    epoch: str = "+"

    @property
    def job_part(self) -> str:
        """Beginning of all topics of the job."""
        return f"dealfl/v1/{quote(self.job, safe='')}"

    @property
    def state(self) -> str:
        """The server's epoch and limits."""
        return f"{self.job_part}/state"

    @property
    def all(self) -> str:
        """Requests to all workers."""
        return f"{self.job_part}/{self.epoch}/all"

    @property
    def model(self) -> str:
        """The published version."""
        return f"{self.job_part}/{self.epoch}/model"

    def up(self, gateway: str, worker: str) -> str:
        """Messages of a worker."""
        return f"{self.job_part}/{self.epoch}/up/{gateway}/{worker}"

    def down(self, gateway: str, worker: str) -> str:
        """Messages to a worker."""
        return f"{self.job_part}/{self.epoch}/down/{gateway}/{worker}"

    def left(self, gateway: str) -> str:
        """The will of a gateway."""
        return f"{self.job_part}/left/{gateway}"

    def ask(self, operator: str) -> str:
        """Questions of an operator."""
        return f"{self.job_part}/control/ask/{operator}"

    def answer(self, operator: str) -> str:
        """Answers to an operator."""
        return f"{self.job_part}/control/answer/{operator}"

    def parse(self, topic: str) -> tuple[str, ...]:
        """Return the kind of a topic and the names in it; a packet of another epoch is "lost"."""
        epoch, _, gateway, last = ("", "", "", *topic.split("/"))[-4:]
        kinds = {
            Topics(self.job, epoch).up(gateway, last): ("lost", gateway, last),
            self.up(gateway, last): ("up", gateway, last),
            self.ask(last): ("ask", last),
            self.left(last): ("left", last),
        }
        return kinds.get(topic, ())


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """What the server publishes about itself: its epoch and the limits of packets."""

    epoch: Epoch = ""
    online: bool = True
    connection: Name = ""  # another one: the server may have missed who announced itself
    protocol: int = PROTOCOL
    max_bytes: Size = MAX_BYTES
    inline_bytes: Size = INLINE_BYTES
    spread_s: Spread = 0.0  # workers return within this time after a failure of the broker
    path: Path = ()  # ids of the ledgers from the root to the server's, for regions
    schema: Name = ""  # digest of the schema

    def encode(self) -> bytes:
        """Return the state as JSON, which people can read with any MQTT client."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, payload: bytes) -> ServerState:
        """Return a state from the network."""
        try:
            state = msgspec.json.decode(payload, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadBytes(f"the server's state cannot be decoded: {error}") from None
        if state.protocol != PROTOCOL:
            raise BadBytes(
                f"the server has protocol version {state.protocol}; this dealfl supports {PROTOCOL}"
            )
        return state
