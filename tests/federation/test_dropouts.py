"""Dropouts in virtual time: rounds close by majority when few drop out, and always by the TTL."""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from dealfl.exact import Statistics
from dealfl.power import Training
from dealfl.protocol.messages import Assignment, Message, Update
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Uniform
from dealfl.simulate import AnyWorker, Network, Returns, Simulation
from dealfl.worker import Cost, Journal, Worker
from tests.federation.parts import KEY, bayes, learned_statistics, row, server, worker

ROUNDS = 200
TTL_S = 60.0
WORKERS = 30


class TrainingTime:
    """Training takes from two to twenty seconds."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def start(self) -> None:
        pass

    def cost(self, training: Training) -> Cost:
        return Cost(self._random.uniform(2.0, 20.0), 1.0)


class Dropouts(Simulation):
    """Who is assigned drops out with some chance for longer than the TTL, then comes back."""

    def __init__(self, chance: float, seed: int) -> None:
        self.ledger = Ledger()
        self.journals = {f"w{n:02d}": Journal(journal_id=f"{n}") for n in range(WORKERS)}
        self.random = random.Random(seed)
        self.chance = chance
        rules = Rules(rounds=ROUNDS, workers_per_round=9, ttl_s=TTL_S, presence_timeout_s=150.0)
        server = Server("job", bayes, self.ledger, rules, Uniform(seed))
        workers = [
            Worker("job", name, bayes, journal, TrainingTime(seed), key=KEY, announce_every_s=50.0)
            for name, journal in self.journals.items()
        ]
        for one in workers:
            self._arrive(one)
        super().__init__(server, workers, Network(max_delay_s=0.5, seed=seed))
        self.set_action(Returns, self._back)

    def _arrive(self, one: AnyWorker) -> None:
        features = [self.random.choice((0.0, 0.5, 1.0)) for _ in range(3)]
        one.ingest([("person", row(*features, target=self.random.choice("ab")))])

    def carry(self, sender: str, messages: Sequence[Message]) -> None:
        """Let assigned workers drop out before the assignment reaches them."""
        for message in messages:
            if isinstance(message, Assignment) and self.random.random() < self.chance:
                self.asleep.add(message.worker)
                self.schedule(self.now_s + 1.5 * TTL_S, Returns(message.worker, "dropped out"))
            if isinstance(message, Update):
                self._arrive(self.workers[sender])
        super().carry(sender, messages)

    def _back(self, event: Returns) -> None:
        self.asleep.discard(event.name)
        self.wake(event.name, self.now_s)

    def finish(self) -> list[Any]:
        """Run until the job is done and everybody has said what is left to say."""
        while not self.server.finished and self.now_s < 1e5:
            self.run(self.now_s + TTL_S)
        self.run(self.now_s + 5 * TTL_S)
        return self.ledger.reader.closed_rounds()


def check_sum(federation: Dropouts) -> None:
    total = Statistics.zero(bayes().schema)
    for journal in federation.journals.values():
        total = total + learned_statistics(journal)
    assert federation.server.model.statistics == total


def test_at_ten_percent_dropouts_rounds_close_by_majority_before_the_ttl() -> None:
    federation = Dropouts(0.1, seed=1)
    rounds = federation.finish()
    assert len(rounds) == ROUNDS
    early = [one.reason == "majority" and one.duration_s < TTL_S for one in rounds]
    assert sum(early) >= 0.99 * ROUNDS
    check_sum(federation)


def test_at_half_dropping_out_every_round_closes_by_the_ttl_with_progress() -> None:
    federation = Dropouts(0.5, seed=1)
    rounds = federation.finish()
    assert len(rounds) == ROUNDS
    assert all(one.duration_s <= TTL_S + 1e-6 for one in rounds)
    assert {"majority", "time to live"} <= {one.reason for one in rounds}
    changed = [before.digest != after.digest for before, after in pairwise(rounds)]
    assert sum(changed) >= 0.9 * len(changed), "hardly any round brought anything"
    check_sum(federation)


def test_what_arrived_after_a_lost_update_is_learned_without_another_announcement() -> None:
    """The server subtracts what a late update learned from what was announced meanwhile."""
    one, device = server(), worker(retry_after_s=1.0)
    device.ingest([("ann", row(1, 0, 1))] * 3)

    def exchange(now_s: float, lose: type[Message] | None = None) -> None:
        for _ in range(4):
            sent = device.handle(inbox.pop(), now_s).messages
            step = one.handle([m for m in sent if not isinstance(m, lose or ())], now_s)
            inbox.append(step.messages)

    inbox: list[tuple[Message, ...]] = [()]
    exchange(0.0, lose=Update)
    device.ingest([("bob", row(0, 1, 1))])
    for now_s in (0.5, 2.0, 100.0, 200.0):  # announced; the update is repeated; rounds end
        exchange(now_s)
    assert one.workers["w"].examples == 4
