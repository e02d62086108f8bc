"""Random hostile messages among honest ones: nothing raises, nobody honest is harmed or flagged."""

import math
import random
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest

from dealfl.erasure import owner_hash
from dealfl.exact import Statistics
from dealfl.learners import Learner, statistics_of
from dealfl.protocol.messages import Message, Published, Step
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import SELECTORS, make_selector
from dealfl.worker import Journal, State, Worker
from tests.federation.parts import KEY, FixedMeter, bayes, item, pagerank, row

HONEST = ["anna", "bob", "carl"]
LIARS = ["mallory", "eve", "trudy"]
INTEGERS = [0, 1, 2, 3, 5, 100, 10**6, 10**9, 2**31, 2**53, 2**62, 2**63, 2**70, -1, -5, -(2**62)]
FLOATS = [0.0, 1e-9, 0.1, 0.5, 1.0, 60.0, 1e6, 1e9, 1e300, math.inf, math.nan, -1.0, 1e-308, 5e-324]
TEXTS = [
    "",
    "job",
    "w",
    "mallory",
    "nexus",
    "honor",
    "a b",
    "\x1b[2J",
    "x[/y]",
    "é",
    "\ud800",
    "x" * 200,
]
ODD: list[Any] = [None, True, b"", "text", 1.5, (), [], {}]


class Liar:
    """Draws messages: fields that a server expects, fields at and beyond their bounds, nonsense."""

    def __init__(self, make: Callable[[], Learner], draw: random.Random) -> None:
        self.draw, self.schema = draw, make().schema
        records = [(b"o%d" % n, item(n % 12) if make is pagerank else row(0.0, 0.5, 1.0))
                   for n in range(8)]  # fmt: skip
        self.real = [
            statistics_of(make, [_Stored(*one) for one in records[:count]])[0]
            for count in range(1, 9)
        ]
        self.sent: list[Message] = []

    def message(self, server: Server) -> Any:
        if self.sent and self.draw.random() < 0.1:
            return self.draw.choice(self.sent)
        if self.draw.random() < 0.02:
            return self.draw.choice(ODD)
        kind = self.draw.choice(get_args(Message))
        fields = msgspec.structs.fields(kind)
        made = kind(**{field.name: self.value(field, server) for field in fields})
        self.sent = [*self.sent[-50:], made]
        return made

    def value(self, field: Any, server: Server) -> Any:
        draw, name = self.draw, field.name
        if draw.random() < 0.03:
            return draw.choice(ODD)
        if name in ("job", "worker"):
            usual = "job" if name == "job" else draw.choice(LIARS)
            return usual if draw.random() < 0.95 else draw.choice(TEXTS)
        if name == "delta":
            return self.delta()
        if name == "incarnation" and draw.random() < 0.8:
            known = server.workers.get(draw.choice(LIARS))
            return known.incarnation if known else 0
        if name == "schema_digest" and draw.random() < 0.9:
            return self.schema.digest()
        if name == "protocol" and draw.random() < 0.95:
            return 1
        return self.plain(str(field.type))

    def plain(self, kind: str) -> Any:
        draw = self.draw
        if "tuple" in kind:
            return tuple(draw.randbytes(32) for _ in range(draw.randrange(4)))
        if "bytes" in kind:
            return draw.randbytes(draw.randrange(40))
        if "bool" in kind:
            return draw.random() < 0.5
        if "float" in kind:
            return draw.choice(FLOATS) if draw.random() < 0.5 else draw.expovariate(1.0)
        if "int" in kind:
            return draw.choice(INTEGERS) if draw.random() < 0.4 else draw.randrange(1, 12)
        return draw.choice(TEXTS)

    def delta(self) -> bytes:
        draw = self.draw
        found = draw.choice(self.real)
        for _ in range(draw.choice([0, 0, 0, 1, 10, 20, 31])):
            try:
                found = found + found
            except ValueError:
                break
        found = draw.choice([found, found, -found, Statistics.zero(self.schema)])
        body = bytearray(found.to_bytes())
        for _ in range(draw.choice([0, 0, 0, 0, 1, 3])):
            body[draw.randrange(len(body))] = draw.randrange(256)
        return bytes(body[: draw.choice([None, None, None, draw.randrange(len(body))])])


class _Stored(msgspec.Struct):
    owner: bytes
    body: bytes


class Federation:
    """Honest workers, whose messages all arrive, and a server that is started again at times."""

    def __init__(self, make: Callable[[], Learner], selector: str, seed: int) -> None:
        self.make, self.selector, self.draw = make, selector, random.Random(seed)
        self.ledger, self.now_s = Ledger(), 0.0
        self.journals = {name: Journal() for name in HONEST}
        self.workers = {
            name: Worker("job", name, make, journal, FixedMeter(0.5, 0.3), key=KEY)
            for name, journal in self.journals.items()
        }
        self.mail: dict[str, list[Message]] = {name: [] for name in HONEST}
        self.server = self.started()

    def started(self) -> Server:
        rules = Rules(rounds=10**6, workers_per_round=3, ttl_s=20.0, max_examples=10_000)
        chooser = make_selector(self.selector, {})
        return Server("job", self.make, self.ledger, rules, chooser)

    def body(self) -> bytes:
        if self.make is pagerank:
            return item(self.draw.randrange(12))
        return row(*(self.draw.random() for _ in range(3)), target=self.draw.choice("ab"))

    def advance(self, hostile: list[Any]) -> None:
        self.now_s += 1.0
        incoming: list[Any] = list(hostile)
        for name, worker in self.workers.items():
            if hostile and self.draw.random() < 0.3:
                owner = f"owner {self.draw.randrange(20)}"
                worker.ingest([(owner, self.body()) for _ in range(3)])
            incoming += worker.handle(self.mail.pop(name, []), self.now_s).messages
        self.draw.shuffle(incoming)
        self.deliver(self.server.handle(incoming, self.now_s))

    def deliver(self, step: Step) -> None:
        for message in step.messages:
            everyone = HONEST if not message.worker else [message.worker]
            for name in everyone:
                if not isinstance(message, Published):
                    self.mail.setdefault(name, []).append(message)

    def erase(self, number: int) -> None:
        owner = owner_hash(KEY, f"owner {number % 20}")
        self.deliver(self.server.erase(f"request {number}", [owner], self.now_s))

    def check(self) -> None:
        """Compare what the server counted of each honest worker with what the worker holds."""
        for name, journal in self.journals.items():
            held = statistics_of(self.make, journal.records(State.LEARNED))[0]
            assert self.ledger.find_sum(name) == held, name
            assert self.server.workers[name].flag == ""
            assert self.server.workers[name].doubts == 0
        sums = [self.ledger.find_sum(name) for name in self.server.workers]
        total = sum((one for one in sums if one), start=self.zero)
        assert self.server.model.statistics == total

    @property
    def zero(self) -> Statistics:
        return Statistics.zero(self.make().schema)


def attack(make: Callable[[], Learner], selector: str, messages: int, seed: int) -> Federation:
    fleet = Federation(make, selector, seed)
    liar = Liar(make, random.Random(seed + 1))
    for number in range(messages // 25):
        fleet.advance([liar.message(fleet.server) for _ in range(25)])
        if number % 20 == 19:
            fleet.erase(number)
        if number % 30 == 29:
            fleet.server = fleet.started()
    for _ in range(150):
        fleet.advance([])
    return fleet


@pytest.mark.parametrize("make", [bayes, pagerank])
@pytest.mark.parametrize("selector", ["fair_ucb", "everyone"])
def test_hostile_messages_harm_nobody(make: Callable[[], Learner], selector: str) -> None:
    fleet = attack(make, selector, 1_000, seed=1)
    fleet.check()
    flags = {row.flag for row in fleet.server.workers.values() if row.name in LIARS}
    assert flags != {""}


@pytest.mark.soak
@pytest.mark.parametrize("selector", sorted(SELECTORS))
@pytest.mark.parametrize("make", [bayes, pagerank])
def test_many_hostile_messages_harm_nobody(make: Callable[[], Learner], selector: str) -> None:
    for seed in range(5):
        attack(make, selector, 1_000, seed).check()
