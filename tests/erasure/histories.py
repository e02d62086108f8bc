"""Random federated histories with erasures, and what must be true after each of them.

People arrive, rounds close, θ evicts, owners and single examples are erased, people are readmitted;
messages are lost and repeated, workers sleep, restart, lose or restore their journals and are
removed, the server restarts. Journals, paged models and the ledger are files in one folder.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from dealfl.erasure import example_hash, owner_hash, readmission_of
from dealfl.errors import BadInput
from dealfl.learners import (
    Histories,
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Rows,
    Tikhonov,
    TikhonovClassifier,
    statistics_of,
)
from dealfl.runs.finished_run import Clock
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Everyone, Uniform
from dealfl.simulate import Network
from dealfl.worker import SCHEMES, Journal, Memory, Record, State, Worker, WorkerKeys
from tests.federation.parts import FixedMeter
from tests.traces.needles import (
    Needles,
    find_needles,
    needles_of_name,
    needles_of_records,
    needles_of_values,
)

KEY, STEPS = b"key of the job", 16
CLASSES, ITEMS = ["yes", "no"], 2**20
LEARNERS: dict[str, Callable[[], Learner]] = {
    "tikhonov": lambda: Tikhonov(3, feature_bound=1.0, target_bound=1.0),
    "tikhonov_classifier": lambda: TikhonovClassifier(3, CLASSES, feature_bound=1.0),
    "naive_bayes": lambda: NaiveBayes(3, CLASSES, feature_bound=1.0),
    "neighbors": lambda: Neighbors(3, CLASSES, feature_bound=1.0, tables=2, bits=8),
    "personalized_pagerank": lambda: PersonalizedPageRank(ITEMS),
}
NAMES = [f"{name} Example" for name in ("Ann", "Bob", "Cem", "Dan", "Eve", "Fay", "Gus", "Hal")]


def connect_quickly(path: str, **options: Any) -> sqlite3.Connection:
    """Open a database that does not wait for the disk; nobody cuts the power here."""

    class Quick(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("synchronous = FULL", "synchronous = OFF"), *values)

    return sqlite3.connect(path, factory=Quick, **options)


class History:
    """One history; a number decides everything that happens in it."""

    def __init__(self, number: int, folder: Path) -> None:
        self.random, self.folder = random.Random(number), folder
        self.name = sorted(LEARNERS)[number % len(LEARNERS)]
        self.make = LEARNERS[self.name]
        self.scheme = self.random.choice(sorted(SCHEMES))
        is_paged, share = self.random.random() < 0.3, self.random.choice((0.0, 0.25))
        is_paged &= self.name != "personalized_pagerank"  # a file of its pairs is too large
        self.keys = WorkerKeys(
            model=self.random.choice(("stateless", "resident")) if not is_paged else "resident",
            memory=Memory(frames=4) if is_paged else None, validation_share=share,
        )  # fmt: skip
        self.rules = Rules(
            rounds=10_000, workers_per_round=3, ttl_s=30.0, presence_timeout_s=90.0,
            release_batch=self.random.choice((1, 2, 8)), release_deadline_s=300.0,
            publish_every_s=60.0,
        )  # fmt: skip
        self.least = self.random.choice((1, 1, 3))  # examples of an update
        self.ledger = Ledger(folder / "ledger.db", connect=connect_quickly)
        self.journals: dict[str, Journal] = {}
        self.backups: dict[str, bytes] = {}
        self.given: dict[bytes, tuple[str, list[float]]] = {}  # owner and values by body
        self.stored: dict[bytes, bytes] = {}  # body as it was given, by body in a journal
        self.gone: set[bytes] = set()  # bodies that must not be found
        self.erased: set[str] = set()
        self.happened: Counter[str] = Counter()
        network = Network(loss=0.2, repetition=0.2, max_delay_s=15.0, seed=number)
        self.simulation = Clock(self.new_server(), [], network)
        for _ in range(3):
            self.join()

    # -- parts ----------------------------------------------------------------------------------

    def new_server(self) -> Server:
        selector = Everyone() if self.scheme == "newfl" else Uniform(1)
        return Server("job", self.make, self.ledger, self.rules, selector)

    def start(self, name: str) -> None:
        """Start the process of a worker, the first or another one."""
        path = self.folder / f"{name}.db"
        if name in self.journals:
            self.journals[name].close()
        self.journals[name] = Journal(path, connect=connect_quickly)
        self.simulation.workers[name] = Worker(
            "job", name, self.make, self.journals[name], FixedMeter(), key=KEY,
            scheme_name=self.scheme, forget_fraction="0.3", announce_every_s=60.0,
            retry_after_s=10.0, keys=self.keys, min_examples=self.least,
        )  # fmt: skip
        self.simulation.wake(name, self.simulation.now_s)

    def some_worker(self) -> str:
        return self.random.choice(sorted(self.journals))

    def body(self) -> tuple[bytes, list[float]]:
        if self.name == "personalized_pagerank":
            return Histories.encode(self.random.randrange(ITEMS + 10_000)), []
        values = [round(self.random.random(), 9) for _ in range(3)]
        values[0] += self.random.random() < 0.05  # out of bounds: the worker refuses the row
        target = self.random.choice(CLASSES) if self.name != "tikhonov" else values[0]
        return Rows.encode(values, target), values

    # -- events ---------------------------------------------------------------------------------

    def join(self) -> None:
        name = f"w{self.happened['join']}"
        self.happened["join"] += 1
        self.start(name)
        self.arrive(name)

    def arrive(self, name: str) -> None:
        rows = []
        for _ in range(self.random.randint(1, 6)):
            owner, (body, values) = self.random.choice(NAMES), self.body()
            rows.append((owner, body))
            self.given[body] = owner, values
            with suppress(BadInput):  # of a row out of bounds nothing is stored
                self.stored[self.make().pack([Record(0, b"", body)])[0]] = body
            self.gone |= {body} if owner in self.erased else set()
        self.simulation.workers[name].ingest(rows)
        self.simulation.wake(name, self.simulation.now_s)

    def send_request(self, entry: bytes) -> None:
        self.happened["request"] += 1
        name, now_s = f"request {self.happened['request']}", self.simulation.now_s
        self.simulation.send("", self.simulation.server.erase(name, [entry], now_s))

    def erase_owner(self, _: str) -> None:
        evicted = {
            self.given[self.stored[one.body]][0]
            for journal in self.journals.values()
            for one in journal.records(State.GRACE)
        }
        owner = self.random.choice(sorted(evicted) or NAMES)  # of whom some are not deleted yet
        self.erased.add(owner)
        self.gone |= {body for body, (whose, _) in self.given.items() if whose == owner}
        self.send_request(owner_hash(KEY, owner))

    def erase_example(self, name: str) -> None:
        held = [one for state in State for one in self.journals[name].records(state)]
        if held:
            one = self.random.choice(held)
            self.gone.add(self.stored[one.body])
            self.send_request(example_hash(KEY, one.owner, one.body))

    def readmit(self, _: str) -> None:
        if self.erased:
            owner = self.random.choice(sorted(self.erased))
            self.erased.remove(owner)
            self.send_request(readmission_of(owner_hash(KEY, owner)))

    def restart_server(self, _: str) -> None:
        self.simulation.server = self.new_server()

    def sleep(self, name: str) -> None:
        self.simulation.asleep.symmetric_difference_update({name})
        self.simulation.wake(name, self.simulation.now_s)

    def lose_journal(self, name: str) -> None:
        self.journals.pop(name).close()
        for file in self.folder.glob(f"{name}.db*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        self.start(name)

    def restore_journal(self, name: str) -> None:
        """Take a backup, or return to an earlier one, which may hold people erased since."""
        if name not in self.backups:
            self.backups[name] = self.journals[name].content()
            return
        content = self.backups.pop(name)
        self.lose_journal(name)
        self.journals.pop(name).close()
        (self.folder / f"{name}.db").write_bytes(content)
        self.start(name)

    def remove_worker(self, name: str) -> None:
        """Remove a worker; it returns later, or never."""
        if name not in self.simulation.server.workers or len(self.journals) < 3:
            return
        step = self.simulation.server.remove(name, self.simulation.now_s)
        self.simulation.send("", step)
        if self.random.random() < 0.5:
            self.lose_journal(name)

    def happen(self) -> None:
        """Let something happen."""
        events = (
            (self.arrive, 45), (self.erase_owner, 12), (self.erase_example, 6), (self.readmit, 4),
            (self.start, 8), (self.restart_server, 6), (self.sleep, 8), (self.restore_journal, 6),
            (self.lose_journal, 2), (self.remove_worker, 3),
        )  # fmt: skip
        (event,) = self.random.choices([one for one, _ in events], [often for _, often in events])
        self.happened[event.__name__] += 1
        event(self.some_worker())
        self.simulation.run(self.simulation.now_s + self.random.choice((1.0, 7.0, 40.0, 200.0)))

    def run(self) -> None:
        """Let everything happen; then erase one more owner, and let all workers answer."""
        for _ in range(STEPS):
            self.happen()
        self.erase_owner("")
        self.simulation.network.loss = 0.0
        self.simulation.asleep.clear()
        for name in self.journals:
            self.simulation.wake(name, self.simulation.now_s)
        for _ in range(8):
            self.simulation.run(self.simulation.now_s + 300.0)
            self.simulation.deliver_model()
            if self.is_settled():
                break

    def is_settled(self) -> bool:
        """Return whether every worker has answered, and a published version shows all erasures."""
        requested, shown = self.ledger.reader.count_erasures()
        left = sum(len(journal.outgoing) for journal in self.journals.values())
        version = self.ledger.reader.last_version()
        digest = self.simulation.server.model.digest()
        return not left and requested == shown and version is not None and version.digest == digest

    # -- what must be true ----------------------------------------------------------------------

    def digests(self) -> tuple[str, str]:
        """Return the digest of the server, and of training on rows of the others alone."""
        never_saw = self.make()
        for journal in self.journals.values():
            rows = [self.stored[one.body] for one in journal.records(State.LEARNED)]
            others = [
                Record(number, owner_hash(KEY, self.given[body][0]), body)
                for number, body in enumerate(rows)
                if body not in self.gone
            ]
            never_saw.merge(statistics_of(self.make, others)[0])
        return self.simulation.server.model.digest(), never_saw.digest()

    def needles(self) -> Needles:
        """Return names, values, bodies and deltas of everything that must be gone."""
        found: Needles = {}
        for owner in self.erased | {self.given[body][0] for body in self.gone}:
            bodies = [body for body in sorted(self.gone) if self.given[body][0] == owner]
            found |= needles_of_name(owner)
            if learned := [body for body in bodies if body in self.stored.values()]:
                found |= needles_of_records(self.make, learned)
            for body in bodies:
                found |= needles_of_values(*self.given[body][1])
        return found

    def find_traces(self) -> list[str]:
        """Return where something is that must be gone."""
        return find_needles(self.folder, self.needles())

    def close(self) -> None:
        for store in (self.ledger, *self.journals.values()):
            store.close()
