"""Names of topics. A job's topics contain the epoch of its ledger, so old messages reach nobody.

    dealfl/v1/JOB/state                     server → all     epoch and limits, retained
    dealfl/v1/JOB/EPOCH/all                 server → all     requests to all workers
    dealfl/v1/JOB/EPOCH/model/PIECE         server → all     the published version, retained
    dealfl/v1/JOB/EPOCH/model/version       server → all     its number, retained
    dealfl/v1/JOB/EPOCH/up/GATEWAY/WORKER   worker → server
    dealfl/v1/JOB/EPOCH/down/GATEWAY/WORKER server → worker
    dealfl/v1/JOB/left/GATEWAY              gateway's will   its workers are asleep
    dealfl/v1/JOB/control/ask/OPERATOR      operator → server
    dealfl/v1/JOB/control/answer/OPERATOR   server → operator

A worker with a connection of its own is its own gateway. The broker lets a user write only to
topics with its own name as the gateway: the sender of a message is what the broker authenticated.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

__all__ = ["Topics"]


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
        """Return the kind of a topic and the names in it; nothing for topics of other epochs."""
        gateway, last = ("", *topic.split("/"))[-2:]
        ways = {("up", gateway, last): self.up(gateway, last), ("ask", last): self.ask(last),
                ("left", last): self.left(last)}  # fmt: skip
        return next((names for names, way in ways.items() if way == topic), ())
