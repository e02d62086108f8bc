"""Whatever happens on the way, the server ends with the digest of central training."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dealfl.erasure import owner_hash
from dealfl.learners import (
    Histories,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Rows,
    Tikhonov,
    statistics_of,
)
from dealfl.power import Training
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Everyone, Uniform
from dealfl.simulate import Network, Simulation
from dealfl.worker import SCHEMES, Cost, Journal, State, Worker, WorkerKeys
from tests.federation.parts import draw_kept_rounds

KEY = b"key of the job"
Made = Callable[[], Any]

MAKERS: dict[str, Made] = {
    "tikhonov": lambda: Tikhonov(3, feature_bound=1.0, target_bound=1.0, fraction_bits=12),
    "naive_bayes": lambda: NaiveBayes(3, ["a", "b"], feature_bound=1.0, fraction_bits=8),
    "neighbors": lambda: Neighbors(
        3, ["a", "b"], feature_bound=1.0, tables=2, bits=8, vote_bits=3, fraction_bits=8
    ),
    "personalized_pagerank": lambda: PersonalizedPageRank(12),
}


class StubMeter:
    """Training takes as long as the chaos wants."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator

    def start(self) -> None:
        pass

    def cost(self, training: Training) -> Cost:
        if not training.wakes:
            return Cost(0.0, 0.0)
        return Cost(
            self._random.choice((0.0, 1.0, 20.0, 200.0)),
            training.operations * 1e-6,
        )


class Chaos:
    """A small federation in which everything that can go wrong does, the same for a seed."""

    rules = Rules(rounds=12, workers_per_round=3, ttl_s=30.0, presence_timeout_s=90.0)

    def __init__(self, learner: str, scheme: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.learner, self.scheme = learner, scheme
        self.keys = WorkerKeys(
            model=("stateless", "resident")[seed // 2 % 2],
            validation_share=0.25 if seed % 2 else 0.0,
            recovery_tolerance=0.0,
        )
        self.make = MAKERS[learner]
        self.ledger = Ledger(kept_rounds=draw_kept_rounds(seed))
        self.journals: dict[str, Journal] = {}
        self.owners: dict[str, list[str]] = {}
        self.erased: list[str] = []
        network = Network(loss=0.2, repetition=0.2, max_delay_s=15.0, seed=seed)
        self.simulation = Simulation(self.new_server(), [], network)
        for _ in range(4):
            self.join()

    def new_server(self) -> Server:
        selector = Uniform(1) if self.scheme != "newfl" else Everyone()
        return Server("job", self.make, self.ledger, self.rules, selector)

    def new_worker(self, name: str) -> Worker:
        return Worker(
            "job", name, self.make, self.journals[name], StubMeter(self.random), key=KEY,
            scheme_name=self.scheme, forget_fraction="0.3", announce_every_s=20.0,
            retry_after_s=10.0, keys=self.keys,
        )  # fmt: skip

    def new_journal(self) -> Journal:
        return Journal(journal_id=str(self.random.random()))

    def join(self) -> None:
        name = f"w{len(self.journals)}"
        self.journals[name] = self.new_journal()
        self.simulation.workers[name] = self.new_worker(name)
        self.arrive(name)
        self.simulation.wake(name, self.simulation.now_s)

    def arrive(self, name: str) -> None:
        rows = []
        for _ in range(self.random.randint(1, 6)):
            owner = f"person {self.random.randint(0, 9)}"
            rows.append((owner, self.body()))
        self.simulation.workers[name].ingest(rows)

    def body(self) -> bytes:
        if self.learner == "personalized_pagerank":
            return Histories.encode(self.random.randint(0, 11))
        features = [self.random.choice((0.0, 0.25, 0.5, 1.0)) for _ in range(3)]
        target = 0.5 if self.learner == "tikhonov" else self.random.choice("ab")
        return Rows.encode(features, target)

    def erase(self) -> None:
        owner = f"person {self.random.randint(0, 9)}"
        self.erased.append(owner)
        request = f"request {len(self.erased)}"
        self.send_erasure(request, owner)

    def send_erasure(self, request: str, owner: str) -> None:
        hashes = [owner_hash(KEY, owner)]
        step = self.simulation.server.erase(request, hashes, self.simulation.now_s)
        self.simulation.send("", step)

    def step(self) -> None:
        names = sorted(self.journals)
        name = self.random.choice(names)
        what = self.random.random()
        if what < 0.5:
            self.arrive(name)
            self.simulation.wake(name, self.simulation.now_s)
        elif what < 0.6:
            self.simulation.workers[name] = self.new_worker(name)  # a restart
            self.simulation.wake(name, self.simulation.now_s)
        elif what < 0.7:
            self.simulation.server = self.new_server()
        elif what < 0.8:
            self.simulation.asleep.symmetric_difference_update({name})
            self.simulation.wake(name, self.simulation.now_s)
        elif what < 0.9:
            self.erase()
        elif what < 0.95:
            self.join()
        else:
            self.journals[name] = self.new_journal()  # the old one is lost
            self.simulation.workers[name] = self.new_worker(name)
            self.simulation.wake(name, self.simulation.now_s)

    def run(self) -> None:
        for _ in range(25):
            self.step()
            self.simulation.run(self.simulation.now_s + self.random.choice((1.0, 7.0, 40.0)))
        self.heal()

    def heal(self) -> None:
        self.simulation.network.loss = 0.0
        self.simulation.asleep.clear()
        for name in self.journals:
            self.simulation.wake(name, self.simulation.now_s)
        self.simulation.run(self.simulation.now_s + 1500.0)

    def surviving(self) -> list[Any]:
        return [r for journal in self.journals.values() for r in [journal.records(State.LEARNED)]]

    def central_digest(self) -> str:
        """Train one learner centrally on what all workers still hold as learned."""
        central = self.make()
        for records in self.surviving():
            central.merge(statistics_of(self.make, records)[0])
        return str(central.digest())


def check(learner: str, scheme: str, seed: int, kind: type[Chaos] = Chaos) -> Chaos:
    chaos = kind(learner, scheme, seed)
    chaos.run()
    server = chaos.simulation.server
    assert all(not journal.outgoing for journal in chaos.journals.values()), "an update is left"
    assert not chaos.ledger.updates.waiting(), "an update is not folded"
    assert server.model.digest() == chaos.central_digest()
    server.model.check()
    assert chaos.new_server().model.digest() == server.model.digest(), "a restart differs"
    hashes = {owner_hash(KEY, owner) for owner in chaos.erased}
    for journal in chaos.journals.values():
        assert not any(journal.records_of(hashes).values()), "an erased person came back"
    for request in server.reader.erasures():
        answers = server.reader.answers(request.name)
        assert set(answers) == set(chaos.journals), "a worker has not answered"
    return chaos


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("learner", sorted(MAKERS))
def test_the_server_ends_with_the_digest_of_central_training(learner: str, scheme: str) -> None:
    closed = 0
    for seed in range(8):
        closed += len(check(learner, scheme, seed).ledger.reader.closed_rounds())
    assert closed > 8, "hardly any round was ever closed"


@pytest.mark.soak
@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("learner", sorted(MAKERS))
def test_thousands_of_chaotic_runs(learner: str, scheme: str) -> None:
    for seed in range(1000, 1130):
        check(learner, scheme, seed)


def test_the_same_seed_is_the_same_chaos() -> None:
    first, second = (check("naive_bayes", "deal", 5) for _ in range(2))
    assert first.ledger.reader.closed_rounds() == second.ledger.reader.closed_rounds()
    assert np.array_equal(first.simulation.now_s, second.simulation.now_s)
