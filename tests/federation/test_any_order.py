"""Whatever comes between two messages: nobody whose erasure is settled or shown is in the model.

Where `test_chaos` lets a network and clocks decide, each step here is one message, one restart or
one backup that comes back. A class of the learner belongs to one person, so counts show who is in.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple
from unittest.mock import patch

import pytest

from dealfl.erasure import READMISSION, owner_hash
from dealfl.exact import Statistics
from dealfl.learners import NaiveBayes, Rows, statistics_of
from dealfl.power import Training
from dealfl.protocol.messages import Message, Published
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Everyone
from dealfl.worker import Cost, Journal, State, Worker
from tests.federation.parts import KEY

PEOPLE = [str(number) for number in range(8)]
SERVER = "the server"
FAULTS = {  # what can happen beside messages, in their order or not
    "a calm network": "restart reconnect",
    "any network": "restart reconnect lose repeat reorder readmit",
    "journals": "restart reconnect journal remove",
    "the ledger": "restart reconnect ledger",
    "backups": "restart reconnect ledger journal remove",
    "silent workers": "restart silent lose repeat reorder ledger journal",
    "all": "restart reconnect lose repeat reorder ledger journal remove readmit",
}


class Sent(NamedTuple):
    """A message on its way; `link` is the worker at one of its ends."""

    to: str
    link: str
    message: Message


class Request(NamedTuple):
    """A request in the order in which people made it."""

    name: str
    entry: bytes


def make() -> NaiveBayes:
    return NaiveBayes(2, PEOPLE, feature_bound=1.0, fraction_bits=8)


class SlowMeter:
    """Some trainings take a while, so that their updates wait."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def start(self) -> None:
        pass

    def cost(self, training: Training) -> Cost:
        return Cost(self._draw.choice((0.0, 0.0, 5.0, 40.0)), 0.0)


class World:
    """A server, up to three workers, and all messages between them."""

    def __init__(self, seed: int, faults: str) -> None:
        self.draw = random.Random(f"{faults} {seed}")
        self.faults = set(faults.split())
        self.now_s = 0.0
        self.rules = Rules(
            rounds=10**6,
            ttl_s=20.0,
            presence_timeout_s=90.0,
            release_batch=self.draw.choice((1, 1, 2)),
            release_deadline_s=500.0,
        )
        self.ledger = Ledger(kept_rounds=self.draw.choice((0, 3)))
        self.ledgers: list[tuple[bytes, int]] = []  # backups, with the number of requests then
        names = ("u", "v", "w")[: self.draw.randint(1, 3)]
        self.journals = {name: Journal(journal_id=f"journal of {name}") for name in names}
        self.backups: dict[str, list[bytes]] = {name: [] for name in names}
        self.thetas = {name: self.draw.choice(("0", "0.3", "1")) for name in names}
        self.server = self.new_server()
        self.workers = {name: self.new_worker(name) for name in names}
        self.sent: list[Sent] = []
        self.requests: list[Request] = []
        self.erased: dict[int, str] = {}  # by the number of the request
        self.happened = Counter[str]()

    # -- the two sides --------------------------------------------------------------------------

    def new_server(self) -> Server:
        return Server("job", make, self.ledger, self.rules, Everyone())

    def new_worker(self, name: str) -> Worker:
        every_s = float("inf") if "silent" in self.faults else 30.0
        return Worker(
            "job", name, make, self.journals[name], SlowMeter(self.draw), key=KEY,
            forget_fraction=self.thetas[name], announce_every_s=every_s, retry_after_s=10.0,
        )  # fmt: skip

    def send_up(self, name: str, *messages: Message) -> None:
        step = self.workers[name].handle(messages, self.now_s)
        self.sent += [Sent(SERVER, name, message) for message in step.messages]

    def send_down(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            if isinstance(message, Published):
                self.require_gone(message.erased.number, Statistics.from_bytes(message.statistics))
            for name in self.workers:
                if str(message.worker) in ("", name):
                    self.sent.append(Sent(name, name, message))
        self.require_gone(self.server._members.fulfilled, self.server.model.statistics)

    def require_gone(self, settled: int, statistics: Statistics) -> None:
        counts = statistics["counts"].to_dict()
        for number, person in self.erased.items():
            assert number > settled or not counts.get(int(person)), f"request {number}: {person}"

    def deliver(self, sent: Sent) -> None:
        if sent.to == SERVER:
            self.send_down(self.server.handle([sent.message], self.now_s).messages)
        else:
            self.send_up(sent.link, sent.message)

    # -- what happens ---------------------------------------------------------------------------

    def step(self) -> None:
        self.now_s += self.draw.choice((0.1, 0.1, 1.0, 1.0, 7.0, 25.0))
        name = self.draw.choice(sorted(self.workers))
        what = self.draw.choices(
            ("deliver", "ingest", "wake", "tick", "request", "restart", "restart server",
             "reconnect", "backup", "journal", "ledger", "remove"),
            (55, 11, 14, 6, 3, 2, 1.5, 1.5, 1.5, 1, 0.8, 0.8),
        )[0]  # fmt: skip
        if what in ("journal", "ledger", "remove", "reconnect") and what not in self.faults:
            return
        self.happened[what] += 1
        getattr(self, f"_{what.replace(' ', '_')}")(name)

    def _deliver(self, name: str) -> None:
        if not self.sent:
            return
        link = self.draw.choice(sorted({(one.to, one.link) for one in self.sent}))
        places = [place for place, one in enumerate(self.sent) if (one.to, one.link) == link]
        late = "reorder" in self.faults and self.draw.random() < 0.3
        place = self.draw.choice(places) if late else places[0]
        sent = self.sent[place]
        if "repeat" not in self.faults or self.draw.random() < 0.85:
            del self.sent[place]
        if "lose" not in self.faults or self.draw.random() < 0.88:
            self.deliver(sent)

    def _ingest(self, name: str) -> None:
        person, count = self.draw.choice(PEOPLE), self.draw.choice((1, 1, 3))
        rows = [Rows.encode((self.draw.random(), 0.5), person) for _ in range(count)]
        self.workers[name].ingest([(person, row) for row in rows])

    def _wake(self, name: str) -> None:
        self.send_up(name)

    def _tick(self, name: str) -> None:
        self.send_down(self.server.handle((), self.now_s).messages)

    def _request(self, name: str) -> None:
        person = self.draw.choice(PEOPLE)
        entry = owner_hash(KEY, person)
        if any(request.entry[-len(entry) :] == entry for request in self.requests):
            if "readmit" not in self.faults:
                return
            entry = READMISSION + entry
            self.erased = {number: one for number, one in self.erased.items() if one != person}
        self.requests.append(Request(f"r{len(self.requests)}", entry))
        number = self.ask(self.requests[-1])
        if not entry.startswith(READMISSION):
            self.erased[number] = person

    def ask(self, request: Request) -> int:
        step = self.server.erase(request.name, [request.entry], self.now_s)
        self.send_down(step.messages)
        return self.ledger.erasures.end().number

    def _restart(self, name: str) -> None:
        self.workers[name] = self.new_worker(name)
        if self.draw.random() < 0.5:
            self.workers[name].reconnect()

    def _restart_server(self, name: str) -> None:
        self.server = self.new_server()

    def _reconnect(self, name: str) -> None:
        self.workers[name].reconnect()

    def _backup(self, name: str) -> None:
        self.backups[name].append(self.journals[name].content())
        self.ledgers.append((self.ledger.content(), len(self.requests)))

    def _journal(self, name: str) -> None:
        if self.backups[name]:
            self.journals[name].replace_content(self.draw.choice(self.backups[name][-3:]))
            self.workers[name] = self.new_worker(name)

    def _ledger(self, name: str) -> None:
        """Put a backup of the ledger back, and request again what it lacks."""
        if self.ledgers:
            content, count = self.draw.choice(self.ledgers[-3:])
            self.ledger.replace_content(content)
            self.server = self.new_server()
            for request in self.requests[count:]:
                self.ask(request)

    def _remove(self, name: str) -> None:
        if name in self.server.workers:
            self.send_down(self.server.remove(name, self.now_s).messages)

    # -- the end --------------------------------------------------------------------------------

    def heal(self) -> None:
        """Let everybody be there, and all messages arrive, for eleven minutes."""
        for number in range(60):
            self.now_s += 11.0
            for name, worker in self.workers.items():
                if number == 2:
                    worker.reconnect()
                self.send_up(name)
            self.send_down(self.server.handle((), self.now_s).messages)
            for _ in range(400):
                if self.sent:
                    self.deliver(self.sent.pop(0))

    def check(self) -> None:
        """Compare the model with the journals; all requests are settled."""
        for name, row in self.server.workers.items():
            held = self.journals[name].records(State.LEARNED)
            if row.heard_s is not None:
                assert self.ledger.sums.read(name, make().schema) == statistics_of(make, held)[0], (
                    name
                )
            owners = {record.owner for record in held}
            gone = {owner_hash(KEY, person) for person in self.erased.values()}
            assert not owners & gone, f"{name} holds an erased person"
        assert self.server._members.fulfilled == self.ledger.erasures.end().number


def run(faults: str, seed: int) -> Counter[str]:
    print(f"{faults}, seed {seed}")
    draw = random.Random(seed)
    with (
        patch("secrets.randbits", draw.getrandbits),
        patch("secrets.token_hex", lambda count: draw.randbytes(count).hex()),
    ):
        world = World(seed, FAULTS[faults])
        for _ in range(draw.choice((30, 80, 200))):
            world.step()
        world.heal()
        world.check()
    return world.happened


@pytest.mark.parametrize("faults", FAULTS)
def test_whatever_comes_between_two_messages_all_ends_exact(faults: str) -> None:
    happened = Counter[str]()
    for seed in range(12):
        happened += run(faults, seed)
    assert happened["request"] > 9, "hardly anybody was erased"


@pytest.mark.soak
@pytest.mark.parametrize("start", range(1_000, 1_500, 250))
@pytest.mark.parametrize("faults", FAULTS)
def test_thousands_of_orders_end_exact(faults: str, start: int) -> None:
    for seed in range(start, start + 250):
        run(faults, seed)
