"""A small federation under masks in which everything that can go wrong does, keyholder included.

Every example has a feature of its own, so that the sums that are opened show which examples, and
whose, they contain.
"""

from __future__ import annotations

import random
from typing import Any

from dealfl.erasure import owner_hash
from dealfl.keyholder import Keyholder, KeyholderJournal, KeyholderRules, Opening
from dealfl.learners import NaiveBayes, Rows, statistics_of
from dealfl.masks import (
    SERVER,
    Asker,
    Enrolment,
    Masker,
    Ring,
    Total,
    draw_private_key,
)
from dealfl.protocol import MaskedUpdate, Open
from dealfl.server import Ledger, Privacy, Rules, Server
from dealfl.server.mask_store import LEAVES
from dealfl.server.masked import MaskedAggregation
from dealfl.server.selection import Uniform
from dealfl.simulate import Network, Simulation
from dealfl.worker import Journal, State, Worker
from tests.federation.parts import KEY, draw_kept_rounds
from tests.federation.test_chaos import StubMeter
from tests.keyholder.openings import Row, find_isolated

FEATURES = 256
COHORT = 3


def make() -> NaiveBayes:
    return NaiveBayes(FEATURES, ["a", "b"], feature_bound=1.0, fraction_bits=4)


class SeenMasker(Masker):
    """Remembers what it has masked, for the search that plays the server."""

    def __init__(self, enrolment: Enrolment, chaos: MaskedChaos) -> None:
        super().__init__(enrolment)
        self._chaos = chaos

    def mask(self, update: MaskedUpdate, ring: Ring, schema: str, vector: bytes) -> MaskedUpdate:
        self._chaos.seen[update.nonce] = vector
        self._chaos.fresh[update.nonce] = update.fresh
        self._chaos.nonces[update.worker, update.incarnation, update.sequence] = update.nonce
        return super().mask(update, ring, schema, vector)


class WatchedKeyholder(Keyholder):
    """Remembers every request that it has opened."""

    opened: list[Open]

    def _admit(self, request: Any, now_s: float) -> Opening:
        opening = super()._admit(request, now_s)
        self.opened.append(request.message)
        return opening


class CarelessKeyholder(WatchedKeyholder):
    """Counts every worker, as if all of them had fresh examples: this must be found out."""

    def _is_fresh(self, header: Any) -> bool:
        return True


class MaskedChaos:
    """A federation with a keyholder, the same for a seed."""

    rules = Rules(
        rounds=10**6, workers_per_round=5, ttl_s=30.0, presence_timeout_s=130.0, max_examples=1000
    )
    keyholder_type: type[WatchedKeyholder] = WatchedKeyholder
    keyholder_rules = KeyholderRules(COHORT)
    first_workers = 6
    max_workers = 100
    forget_fraction = "0.3"

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.ledger = Ledger(kept_rounds=draw_kept_rounds(seed))
        self.journals: dict[str, Journal] = {}
        self.enrolments: dict[str, Enrolment] = {}
        self.vault = KeyholderJournal()
        self.vault_key = draw_private_key()
        self.erased: list[str] = []
        self.worker_of: dict[int, str] = {}  # by feature
        self.seen: dict[bytes, bytes] = {}  # vectors by nonce
        self.fresh: dict[bytes, int] = {}
        self.nonces: dict[tuple[str, int, int], bytes] = {}  # the last by worker and place
        self.opened: list[Open] = []
        self.copies: dict[str, bytes] = {}
        self.lost: set[str] = set()  # phones
        self.done: dict[str, int] = {}  # what happened
        keyholder = self.new_keyholder()
        self.enrolments[SERVER] = keyholder.enrol("server", SERVER)
        network = self.new_network()
        self.simulation = Simulation(self.new_server(), [], network, keyholder=keyholder)
        for _ in range(self.first_workers):
            self.join()

    # -- parts -----------------------------------------------------------------------------------

    def new_keyholder(self) -> WatchedKeyholder:
        one = self.keyholder_type(
            "keyholder", self.vault, self.vault_key, self.keyholder_rules, jobs=["job"]
        )
        one.opened = self.opened
        return one

    def new_network(self) -> Network:
        return Network(loss=0.15, repetition=0.2, max_delay_s=15.0, seed=self.seed)

    def new_masker(self, name: str) -> Masker:
        return SeenMasker(self.enrolments[name], self)

    def new_server(self) -> Server:
        asker = Asker(self.enrolments[SERVER])
        privacy = Privacy(asker, "job", cohort=COHORT, max_workers=self.max_workers)
        return Server("job", make, self.ledger, self.rules, Uniform(1), privacy)

    def new_worker(self, name: str) -> Worker:
        return Worker(
            "job", name, make, self.journals[name], StubMeter(self.random), key=KEY,
            forget_fraction=self.forget_fraction, announce_every_s=40.0, retry_after_s=10.0,
            masker=self.new_masker(name),
        )  # fmt: skip

    def start_worker(self, name: str) -> None:
        self.simulation.workers[name] = self.new_worker(name)
        self.simulation.wake(name, self.simulation.now_s)

    def start_keyholder(self) -> None:
        self.simulation.keyholder = self.new_keyholder()
        self.simulation.wake("keyholder", self.simulation.now_s)

    def join(self) -> None:
        name = f"w{len(self.journals) + len(self.lost)}"
        self.journals[name] = Journal(journal_id=str(self.random.random()))
        assert self.simulation.keyholder is not None
        self.enrolments[name] = self.simulation.keyholder.enrol(name)
        self.start_worker(name)
        self.arrive(name)

    def arrive(self, name: str, most: int = 4) -> None:
        rows = []
        for _ in range(self.random.randint(1, most)):
            feature = len(self.worker_of)
            if feature == FEATURES:
                break
            self.worker_of[feature] = name
            values = [float(index == feature) for index in range(FEATURES)]
            owner = f"person {self.random.randint(0, 9)}"
            rows.append((owner, Rows.encode(values, self.random.choice("ab"))))
        self.simulation.workers[name].ingest(rows)
        self.simulation.wake(name, self.simulation.now_s)

    # -- what goes wrong -------------------------------------------------------------------------

    def kill_worker(self, name: str) -> None:
        self.start_worker(name)

    def kill_server(self, name: str) -> None:
        self.simulation.server = self.new_server()

    def kill_keyholder(self, name: str) -> None:
        self.start_keyholder()

    def sleep_worker(self, name: str) -> None:
        self.simulation.asleep.symmetric_difference_update({name})
        self.simulation.wake(name, self.simulation.now_s)

    def sleep_keyholder(self, name: str) -> None:
        self.simulation.asleep.symmetric_difference_update({"keyholder"})
        self.start_keyholder()

    def erase(self, name: str) -> None:
        owner = f"person {self.random.randint(0, 9)}"
        self.erased.append(owner)
        request = f"request {len(self.erased)}"
        now_s = self.simulation.now_s
        step = self.simulation.server.erase(request, [owner_hash(KEY, owner)], now_s)
        self.simulation.send("", step)

    def join_late(self, name: str) -> None:
        if len(self.journals) < 9:
            self.join()

    def lose_journal(self, name: str) -> None:
        self.journals[name] = Journal(journal_id=str(self.random.random()))
        self.start_worker(name)

    def lose_phone(self, name: str) -> None:
        """Nobody ever hears of a phone again, and the operator removes it."""
        if len(self.journals) > COHORT + 2 and name in self.simulation.server.workers:
            self.lost.add(name)
            del self.journals[name], self.simulation.workers[name]
            self.simulation.send("", self.simulation.server.remove(name, self.simulation.now_s))

    def copy(self, name: str) -> None:
        self.copies = {SERVER: self.ledger.content(), name: self.journals[name].content()}

    def restore_ledger(self, name: str) -> None:
        if SERVER in self.copies:
            self.ledger.replace_content(self.copies.pop(SERVER))
            self.simulation.server = self.new_server()
            self.repeat_removals()
            self.repeat_erasures()

    def repeat_removals(self) -> None:
        """Remove lost phones again that a restored ledger knows, as an operator does."""
        for name in sorted(self.lost & self.simulation.server.workers.keys()):
            self.simulation.send("", self.simulation.server.remove(name, self.simulation.now_s))

    def repeat_erasures(self) -> None:
        """Ask again for what a restored ledger has forgotten, as an operator does."""
        for number, owner in enumerate(self.erased, 1):
            request = f"request {number}"
            known = {one.name for one in self.simulation.server.reader.erasures()}
            if request not in known:
                hashes = [owner_hash(KEY, owner)]
                step = self.simulation.server.erase(request, hashes, self.simulation.now_s)
                self.simulation.send("", step)

    def restore_journal(self, name: str) -> None:
        for other in [key for key in self.copies if key in self.journals]:
            self.journals[other].replace_content(self.copies.pop(other))
            self.start_worker(other)

    def restore_keyholder(self, name: str) -> None:
        """A new key: everybody is enrolled again, and begins again."""
        with self.vault.transaction():
            self.vault.forget_openings()
            self.vault.put_key_name("")
        self.vault_key = draw_private_key()
        self.start_keyholder()
        keyholder = self.simulation.keyholder
        assert keyholder is not None
        self.enrolments[SERVER] = keyholder.enrol("server", SERVER, again=True)
        self.simulation.server = self.new_server()
        for name in self.journals:
            self.enrolments[name] = keyholder.enrol(name, again=True)
            self.start_worker(name)

    EVENTS = (
        (kill_worker, 8), (kill_server, 8), (kill_keyholder, 8), (sleep_worker, 6),
        (sleep_keyholder, 4), (erase, 10), (join_late, 3), (lose_journal, 4), (lose_phone, 2),
        (copy, 6), (restore_ledger, 3), (restore_journal, 4), (restore_keyholder, 1),
    )  # fmt: skip

    def step(self) -> None:
        name = self.random.choice(sorted(self.journals))
        if self.random.random() < 0.5:
            self.arrive(name)
            return
        events, weights = zip(*self.EVENTS, strict=True)
        event = self.random.choices(events, weights)[0]
        self.done[event.__name__] = self.done.get(event.__name__, 0) + 1
        event(self, name)

    def run(self, steps: int = 40) -> None:
        for _ in range(steps):
            self.step()
            self.simulation.run(self.simulation.now_s + self.random.choice((1.0, 7.0, 40.0)))
        self.heal()

    def heal(self) -> None:
        """Let nothing go wrong any more, and bring fresh examples until everything is opened."""
        self.simulation.network.loss = 0.0
        self.simulation.asleep.clear()
        self.start_keyholder()
        for _ in range(3):
            for name in self.journals:
                self.arrive(name, most=1)
            self.simulation.run(self.simulation.now_s + 300.0)
        self.simulation.run(self.simulation.now_s + 100.0)  # answers on their way

    # -- what must hold --------------------------------------------------------------------------

    def central_digest(self) -> str:
        central = make()
        for journal in self.journals.values():
            central.merge(statistics_of(make, journal.records(State.LEARNED))[0])
        return str(central.digest())

    def digest_with_waiting(self) -> str:
        """Return the digest of the total, with what waits for a cohort and without what leaves."""
        ring = Ring(make().schema)
        server = self.simulation.server
        total = Total(ring).add(ring.vector(server.model.statistics))
        for nonces in self.find_waiting().values():
            for nonce in nonces:
                total.add(self.seen[nonce])
        for nonce in self.find_leaving():
            total.subtract(self.seen[nonce])
        return ring.statistics(total.vector()).digest()

    def find_leaving(self) -> list[bytes]:
        """Return the nonces of the updates that the next opening subtracts."""
        aggregation = self.simulation.server._aggregation
        assert isinstance(aggregation, MaskedAggregation)
        store = aggregation._masks
        return [
            header.nonce
            for left in store.leaving(LEAVES)
            for header in store.opened_headers(left.worker, left.incarnation)
        ]

    def find_waiting(self) -> dict[str, list[bytes]]:
        """Return the nonces of the updates that are stored and not opened, by worker."""
        rows = [self.simulation.server.workers[name] for name in self.ledger.updates.waiting()]
        return {
            row.name: [
                self.nonces[row.name, row.incarnation, update.sequence]
                for update in self.ledger.updates.pending(row)
                if not update.withdrawn
            ]
            for row in rows
        }

    def count_fresh_waiting(self) -> int:
        waiting = self.find_waiting().values()
        return sum(any(self.fresh[nonce] for nonce in nonces) for nonces in waiting)

    def rows(self) -> list[Row]:
        """Return the sums that the server was shown, by example."""
        ring = Ring(make().schema)
        rows: list[Row] = []
        for request in self.opened:
            total = Total(ring)
            for header in request.plus:
                total.add(self.seen[header.nonce])
            for header in request.minus:
                total.subtract(self.seen[header.nonce])
            sums = ring.statistics(total.vector())["sums"].to_dict()
            row: dict[int, int] = {}
            for cell, value in sums.items():
                row[cell % FEATURES] = row.get(cell % FEATURES, 0) + value
            rows.append({feature: value for feature, value in row.items() if value})
        return rows

    def find_isolated(self) -> tuple[str, ...] | None:
        return find_isolated(self.rows(), self.worker_of, COHORT)


def check(seed: int, steps: int = 30) -> MaskedChaos:
    """Run chaos with a seed, and check all that must hold."""
    chaos = MaskedChaos(seed)
    chaos.run(steps)
    server = chaos.simulation.server
    assert all(not journal.outgoing for journal in chaos.journals.values()), "an update is left"
    assert chaos.count_fresh_waiting() < COHORT, "a cohort is not opened"
    assert chaos.digest_with_waiting() == chaos.central_digest()
    assert chaos.opened, "nothing was opened"
    assert chaos.new_server().model.digest() == server.model.digest(), "a restart differs"
    hashes = {owner_hash(KEY, owner) for owner in chaos.erased}
    for journal in chaos.journals.values():
        assert not any(journal.records_of(hashes).values()), "an erased person came back"
    assert chaos.find_isolated() is None, "the openings isolate somebody"
    return chaos
