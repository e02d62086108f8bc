"""A tree under a virtual clock: a root, regions and workers; messages are lost and repeated.

A node is called by its path: "north/w1", or "north/west/w1" below a region of a region. Ledgers are
in memory. A restored region continues from a copy of its ledger of some time before.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

from dealfl.erasure import owner_hash
from dealfl.learners import Rows, statistics_of
from dealfl.protocol import Message, Published, Pump, Step
from dealfl.protocol.messages import Announce, Declined, Erased, Fetch, Update, Withdraw
from dealfl.server import FromParent, Ledger, Region, Rules, Server
from dealfl.server.selection import Everyone
from dealfl.simulate import Network
from dealfl.worker import Journal, State, Worker
from tests.federation.parts import KEY, FixedMeter, bayes

UPWARD = (Announce, Declined, Update, Withdraw, Erased, Fetch)
ROOT = ""
PEOPLE = 10


class Tree:
    """A root with regions, each with workers; a region that others name as theirs has none."""

    make: Any = staticmethod(bayes)

    def __init__(
        self, seed: int, regions: Iterable[str] = ("a", "b", "c"), workers: int = 8, **rules: Any
    ) -> None:
        self.random = random.Random(seed)
        self.network = Network(loss=0.05, repetition=0.05, max_delay_s=5.0, seed=seed)
        self.now_s = 0.0
        self.rules = Rules(rounds=100_000, workers_per_round=4, ttl_s=30.0, presence_timeout_s=90.0,
                           publish_every_s=20.0, **rules)  # fmt: skip
        self.clock_off_s: dict[str, float] = {}
        self._queue: list[tuple[float, int, str, Message | None]] = []
        self._order = 0
        self._pumps: dict[str, Pump] = {}
        self._models: dict[str, Any] = {}  # what the broker of a server retains
        self.down: set[str] = set()  # nodes that hear nothing
        self.ledgers: dict[str, Ledger] = {ROOT: Ledger()}
        self.journals: dict[str, Journal] = {}
        self.nodes: dict[str, Any] = {}
        self.ingested: Counter[tuple[str, str]] = Counter()  # examples by worker and person
        self.requests: dict[str, str] = {}  # persons by request
        self.asked: dict[str, set[str]] = {}  # regions that were known when it was made
        self.names = list(regions)
        self.restart(ROOT)
        for region in self.names:
            self.ledgers[region] = Ledger()
            self.restart(region)
        for region in self.names:
            for number in range(0 if self.below(region) else workers):
                self.join(f"{region}/w{number}")

    # -- nodes ----------------------------------------------------------------------------------

    def below(self, name: str) -> list[str]:
        """Return the regions that have a server as their parent."""
        return [region for region in self.names if parent_of(region) == name]

    def restart(self, name: str) -> None:
        """Start the process of a node on its store."""
        if name == ROOT:
            regions = tuple(self.below(ROOT))
            rules = Rules(**{**_plain(self.rules), "regions": regions, "max_examples": 3})
            self.nodes[ROOT] = Server("job", self.make, self.ledgers[ROOT], rules, Everyone())
            self.meet_all(ROOT)
        elif name in self.journals:
            self.nodes[name] = Worker(
                "job", last_of(name), self.make, self.journals[name], FixedMeter(1.0), key=KEY,
                forget_fraction="0", announce_every_s=20.0, retry_after_s=10.0,
            )  # fmt: skip
        else:
            self.nodes[name] = self.new_region(name)
            self.meet(name)
        self.wake(name)

    def new_region(self, name: str) -> Region:
        regions = tuple(map(last_of, self.below(name)))
        rules = Rules(**{**_plain(self.rules), "regions": regions})
        return Region(
            "job", last_of(name), self.make, self.ledgers[name], rules, Everyone(),
            retry_after_s=10.0, announce_every_s=20.0,
        )  # fmt: skip

    def meet(self, region: str) -> None:
        """Let a region see the state of its parent, and the version that the broker retains."""
        above = parent_of(region)
        if region in self.nodes and above in self.nodes:
            parent: Server = self.nodes[above]
            self.nodes[region].meet(parent.path, parent.schema_digest)
            if above in self._models:
                self.schedule(0.0, region, FromParent(self._models[above]))  # type: ignore[arg-type]
            self.wake(region)
            self.meet_all(region)

    def meet_all(self, name: str) -> None:
        """Let the regions below a server see its state."""
        for region in self.below(name):
            self.meet(region)

    def join(self, name: str) -> None:
        self.journals[name] = Journal(journal_id=str(self.random.random()))
        self.restart(name)
        self.arrive(name, erased=False)

    def move(self, name: str, new: str) -> None:
        """Let a worker continue in another region; the one that it leaves is not told."""
        self.journals[new] = self.journals.pop(name)
        del self.nodes[name], self._pumps[name]
        self._queue = [event for event in self._queue if event[2] != name]
        heapq.heapify(self._queue)
        self.restart(new)

    def arrive(self, name: str, count: int = 0, *, erased: bool = True) -> None:
        """Give a worker new examples; those of erased people are dropped."""
        people = [f"person {number}" for number in range(PEOPLE)]
        if not erased:  # what a worker holds of them before it joins, no certificate counts
            people = [person for person in people if person not in self.requests.values()]
        for _ in range(count or self.random.randint(1, 5)) if people else ():
            owner = self.random.choice(people)
            features = [self.random.choice((0.0, 0.25, 0.5, 1.0)) for _ in range(3)]
            body = Rows.encode(features, self.random.choice("ab"))
            accepted = self.nodes[name].ingest([(owner, body)])
            self.ingested[name, owner] += accepted.waiting
        self.wake(name)

    # -- events ---------------------------------------------------------------------------------

    def schedule(self, delay_s: float, name: str, message: Message | None) -> None:
        self._order += 1
        heapq.heappush(self._queue, (self.now_s + delay_s, self._order, name, message))

    def wake(self, name: str) -> None:
        self.pump(name).wake(self.now_s)

    def pump(self, name: str) -> Pump:
        if name not in self._pumps:

            def handle(messages: Iterable[Message], now_s: float) -> Step:
                off_s = self.clock_off_s.get(name, 0.0)
                step = self.nodes[name].handle(messages, now_s + off_s)
                # later by more than sums are rounded, or it is called too early again and again
                wake_s = None if step.wake_at_s is None else step.wake_at_s - off_s + 1e-6
                return Step(step.messages, wake_s)

            def expect(moment_s: float) -> None:
                self._order += 1
                heapq.heappush(self._queue, (moment_s, self._order, name, None))

            self._pumps[name] = Pump(handle, partial(self.carry, name), expect)
        return self._pumps[name]

    def run(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while self._queue and self._queue[0][0] <= until_s:
            moment_s, _, name, message = heapq.heappop(self._queue)
            self.now_s = max(moment_s, self.now_s)
            pump = self.pump(name)
            if name in self.down:
                pump.due_s = float("inf")
            elif message is not None:
                pump.turn([message], self.now_s)
            elif pump.due_s == moment_s:
                pump.due_s = float("inf")
                pump.turn((), self.now_s)
        self.now_s = until_s

    def carry(self, sender: str, messages: Iterable[Message]) -> None:
        for message in messages:
            for receiver in self.receivers(sender, message):
                is_below = parent_of(receiver) == sender and receiver in self.names
                sent: Any = FromParent(message) if is_below else message
                for delay_s in self.network.delays_s():
                    self.schedule(delay_s, receiver, sent)

    def receivers(self, sender: str, message: Message) -> list[str]:
        if sender not in self.ledgers or (sender and isinstance(message, UPWARD)):
            return [parent_of(sender)]
        if isinstance(message, Published):
            self._models[sender] = message
        names = [name for name in self.nodes if name and parent_of(name) == sender]
        if message.worker:
            return [name for name in names if last_of(name) == message.worker]
        regions = self.below(sender)
        return regions if isinstance(message, Published) else names

    # -- what happens ---------------------------------------------------------------------------

    def erase(self, owner: str) -> str:
        request = f"request {self.now_s} {owner}"
        self.request(request, owner)
        self.requests[request] = owner
        self.asked[request] = set(self.nodes[ROOT].workers)
        return request

    def request(self, request: str, owner: str) -> None:
        step = self.nodes[ROOT].erase(request, [owner_hash(KEY, owner)], self.now_s)
        self.pump(ROOT).emit(step, self.now_s)

    def copy(self, region: str) -> Ledger:
        """Return a backup of a region's ledger."""
        backup = Ledger()
        self.ledgers[region]._db.backup(backup._db)
        backup._forget_cached()
        return backup

    def heal(self, seconds: float = 1500.0) -> None:
        self.network.loss = 0.0
        self.down.clear()
        for name in self.nodes:
            self.wake(name)
        self.meet_all(ROOT)
        self.run(seconds)

    # -- afterwards -----------------------------------------------------------------------------

    def held(self, region: str = "") -> Any:
        """Return the statistics of what the workers, or those of one region, hold as learned."""
        central = self.make()
        for name, journal in self.journals.items():
            if name.startswith(f"{region}/") or not region:
                central.merge(statistics_of(self.make, journal.records(State.LEARNED))[0])
        return central

    def check(self) -> None:
        for name, journal in self.journals.items():
            assert not journal.outgoing, f"{name}: an update is left"
        for region in self.names:
            server = self.nodes[region]
            assert server.problem == "", (region, server.problem)
            assert server._uplink.update is None, f"{region}: an update is left"
            assert server.model.digest() == self.held(region).digest(), region
            assert server.model.statistics == self.ledgers[parent_of(region)].find_sum(
                last_of(region)
            ), region
        assert self.nodes[ROOT].model.digest() == self.held().digest()
        self.check_erasures()

    def check_erasures(self) -> None:
        """Compare what certificates count with what was ingested, region by region."""
        reader = self.nodes[ROOT].reader
        hashes = [owner_hash(KEY, owner) for owner in self.requests.values()]
        for name, journal in self.journals.items():
            assert not any(journal.records_of(hashes).values()), f"{name}: an erased person is left"
        answers = {request: reader.answers(request) for request in self.requests}
        for region in self.below(ROOT):
            for person in set(self.requests.values()):
                own = [request for request, owner in self.requests.items() if owner == person]
                if not all(region in self.asked[request] for request in own):
                    continue  # it joined later, perhaps after the certificate
                assert all(region in answers[request] for request in own), f"{region}: no answer"
                deleted = sum(answers[request][region] for request in own)
                ingested = sum(
                    count
                    for (name, owner), count in self.ingested.items()
                    if owner == person and name.startswith(f"{region}/")
                )
                assert deleted == ingested, f"{region}, {person}: {deleted} of {ingested} deleted"
        assert reader.count_erasures() == (len(self.requests),) * 2, "an erasure is not published"


def parent_of(name: str) -> str:
    return name.rpartition("/")[0]


def last_of(name: str) -> str:
    return name.rpartition("/")[2]


def _plain(rules: Rules) -> dict[str, Any]:
    return {name: getattr(rules, name) for name in rules.__struct_fields__}
