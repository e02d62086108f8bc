"""After eviction, erasure and removal, no file holds a byte of what must be gone."""

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from dealfl.erasure import owner_hash
from dealfl.learners import (
    Histories,
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Rows,
    Tikhonov,
    TikhonovClassifier,
)
from dealfl.protocol.messages import Message, Update
from dealfl.server import Ledger, Server
from dealfl.storage import Database
from dealfl.worker import Journal, State, Worker
from tests.federation.parts import KEY, joined, server, update, worker
from tests.traces.needles import (
    Needles,
    find_needles,
    needles_of_name,
    needles_of_points,
    needles_of_records,
    needles_of_statistics,
    needles_of_values,
)

ANN, DAY_S = "Ann Example", 86_400.0
VALUES = (0.12345678, 0.23456789, 0.34567891)
CLASSES = ["a", "b"]
LEARNERS: dict[str, Callable[[], Learner]] = {
    "tikhonov": lambda: Tikhonov(3, feature_bound=1.0, target_bound=1.0),
    "tikhonov_classifier": lambda: TikhonovClassifier(3, CLASSES, feature_bound=1.0),
    "naive_bayes": lambda: NaiveBayes(3, CLASSES, feature_bound=1.0),
    "neighbors": lambda: Neighbors(3, CLASSES, feature_bound=1.0),
    "pagerank": lambda: PersonalizedPageRank(2**20),
}


def examples_of(name: str, first: float) -> list[bytes]:
    """Return bodies whose values depend on a number in [0, 0.5]."""
    if name == "pagerank":
        return [Histories.encode(int(first * 2**20) + 1_000 * place) for place in range(4)]
    target = first if name == "tikhonov" else "a"
    return [Rows.encode([value + first for value in VALUES], target)]


class Pair:
    """A server and a worker, with the files of both in one folder; the test loses messages."""

    def __init__(self, folder: Path, make: Callable[[], Learner], **how: str) -> None:
        self.folder, self.now_s, self.lost = folder, 0.0, 0
        self.ledger, self.journal = Ledger(folder / "ledger.db"), Journal(folder / "journal.db")
        self.server: Server = server(self.ledger, make, release_batch=2, min_workers=1)
        self.worker: Worker = worker(make, self.journal, announce_every_s=1.0, **how)
        self.compacted: list[tuple[str, int]] = []  # which file, with which updates of the erased
        self._watch(self.ledger, lambda: len(self.ledger.updates.waiting()))
        self._watch(self.journal, lambda: self.journal.state.last_with_erased)
        self.talk()

    def _watch(self, database: Database, count: Callable[[], int]) -> None:
        compact = database.compact

        def watched() -> bool:
            self.compacted.append((database.kind, count()))
            return compact()

        database.compact = watched  # type: ignore[method-assign]

    def talk(self, passed_s: float = 100.0) -> None:
        """Let time pass, and exchange messages until nothing is left to say."""
        self.now_s += passed_s
        step = self.worker.handle((), self.now_s)
        for _ in range(6):
            back = self.server.handle(self._kept(step.messages), self.now_s)
            step = self.worker.handle(back.messages, self.now_s)

    def _kept(self, messages: Iterable[Message]) -> list[Message]:
        given = list(messages)
        kept = [one for one in given if not (self.lost and isinstance(one, Update))]
        self.lost = max(self.lost - (len(given) - len(kept)), 0)
        return kept

    def learn(self, owner: str, bodies: list[bytes]) -> None:
        self.worker.ingest([(owner, body) for body in bodies])
        self.talk()

    def erase(self, owner: str) -> None:
        step = self.server.erase(f"request {self.now_s}", [owner_hash(KEY, owner)], self.now_s)
        self.worker.handle(step.messages, self.now_s)

    def close(self) -> None:
        self.ledger.close()
        self.journal.close()


def needles_of(name: str) -> Needles:
    found = needles_of_records(LEARNERS[name], examples_of(name, 0.25)) | needles_of_name(ANN)
    if name != "pagerank":
        found |= needles_of_values(*(value + 0.25 for value in VALUES))
    return found


@pytest.mark.parametrize("lost", [0, 1], ids=["counted", "withdrawn"])
@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_after_a_settled_erasure_no_file_holds_anything_of_the_person(
    name: str, lost: int, tmp_path: Path
) -> None:
    pair, needles = Pair(tmp_path, LEARNERS[name], forget_fraction="0"), needles_of(name)
    pair.lost = lost
    pair.learn(ANN, examples_of(name, 0.25))
    assert find_needles(tmp_path, needles), "she is found while she is learned"
    if not lost:
        pair.learn("bob", examples_of(name, 0.5))
    pair.compacted.clear()
    pair.erase(ANN)
    assert any(one.withdrawing for one in pair.journal.outgoing.values()) == bool(lost)
    if lost:
        pair.learn("bob", examples_of(name, 0.5))
    for _ in range(3):
        pair.talk()
    assert {("journal", 0), ("ledger", 0)} <= set(pair.compacted), "again after the last receipt"
    held_back = [line for line in find_needles(tmp_path, needles) if "learned" not in line]
    assert not held_back, "only the published version remains until the release deadline"
    assert not any(line.startswith("ledger") for line in find_needles(tmp_path, needles))
    pair.talk(DAY_S)
    assert find_needles(tmp_path, needles) == []
    assert pair.server.model.statistics.is_zero is False
    pair.close()


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_a_day_after_an_eviction_no_file_holds_what_was_evicted(name: str, tmp_path: Path) -> None:
    pair, needles = Pair(tmp_path, LEARNERS[name], scheme_name="newfl"), needles_of(name)
    pair.learn(ANN, examples_of(name, 0.25))
    for number in range(3):
        pair.learn("bob", examples_of(name, 0.4 + number / 100))
    pair.talk(DAY_S)
    assert find_needles(tmp_path, needles) == []
    pair.close()


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_after_a_removal_the_ledger_holds_nothing_of_the_worker(name: str, tmp_path: Path) -> None:
    pair, needles = Pair(tmp_path, LEARNERS[name]), needles_of(name)
    pair.learn(ANN, examples_of(name, 0.25))
    pair.server.remove("w", pair.now_s)
    (tmp_path / "journal.db").rename(tmp_path.parent / "journal.db")  # the device keeps its own
    (tmp_path / "journal.db-wal").unlink()
    assert find_needles(tmp_path, needles) == []
    pair.close()


OLDER = """CREATE TABLE updates (
  worker, incarnation, sequence, sha256, delta_sha256, withdrawn, delta, successor,
  PRIMARY KEY (worker, incarnation, sequence)) WITHOUT ROWID"""


@pytest.mark.parametrize("cause", ["a day", "a removal"])
def test_no_page_of_a_compacted_ledger_holds_a_counted_update(cause: str, tmp_path: Path) -> None:
    draws, ledger = random.Random(4), Ledger(tmp_path / "ledger.db")
    one = joined("w", ledger=ledger)
    one.remove("w", 0.0)
    counted: Needles = {}
    waiting: dict[str, list[bytes]] = {}
    with ledger.transaction():
        ledger.execute("DROP TABLE updates")
        ledger.execute(OLDER)
        for number in range(1_500):
            name, needle = f"w{draws.randrange(40):02}", b"delta %05d of a person" % number
            body = needle + draws.randbytes(draws.randrange(700))
            ledger.updates.put(msgspec.structs.replace(update(number, name=name), delta=body))
            waiting.setdefault(name, []).append(needle)
            if draws.random() < 0.2:
                name = draws.choice(sorted(waiting))
                ledger.updates.delete_deltas(name, 1, number)
                counted |= {needle.decode(): needle for needle in waiting.pop(name)}
    one.handle([], 1.0)
    assert find_needles(tmp_path, counted), "SQLite leaves copies in unused parts of pages"
    one.handle([], DAY_S) if cause == "a day" else one.remove("w", 2.0)
    assert find_needles(tmp_path, counted) == []
    assert find_needles(tmp_path, {name: deltas[0] for name, deltas in waiting.items()})
    ledger.close()


def test_the_next_transaction_repeats_a_checkpoint_that_a_reader_prevented(tmp_path: Path) -> None:
    needles = {"body": b"a body that nobody else has"}
    with closing(Journal(tmp_path / "journal.db")) as journal:
        with journal.transaction():
            ids = journal.add([(b"owner", needles["body"])], State.WAITING)
        with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM records").fetchone()
            with journal.transaction():
                journal.delete(ids, State.WAITING)
            assert not journal.checkpoint()
        assert find_needles(tmp_path, needles)
        with journal.transaction():
            journal.state.refused = "something"
        assert find_needles(tmp_path, needles) == []


def test_an_erasure_while_somebody_reads_the_journal_ends_well(tmp_path: Path) -> None:
    pair, needles = Pair(tmp_path, LEARNERS["naive_bayes"]), needles_of("naive_bayes")
    pair.learn(ANN, examples_of("naive_bayes", 0.25))
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM records").fetchone()
        pair.erase(ANN)
        pair.talk()
        assert find_needles(tmp_path, needles), "the reader still needs the log"
    pair.talk(DAY_S)
    assert find_needles(tmp_path, needles) == []
    pair.close()


def test_the_bytes_of_a_crashed_process_are_removed_by_the_next_one(tmp_path: Path) -> None:
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    ledger = Ledger(tmp_path / "before" / "ledger.db")
    one = joined("v", "w", ledger=ledger)
    first = update(1, 700, name="v", round=1)
    one.handle([first], 1.0)
    ledger.checkpoint = lambda: False  # type: ignore[method-assign]
    one.handle([update(1, 5, round=1), update(2, 1, name="v")], 2.0)
    one.handle([], 500.0)
    for file in (tmp_path / "before").glob("ledger.db*"):  # as kill −9 leaves them
        if not file.name.endswith("-lock"):
            shutil.copy(file, tmp_path / "after" / file.name)
    assert find_needles(tmp_path / "after", {"delta": first.delta})
    again = Ledger(tmp_path / "after" / "ledger.db")
    server(again).handle([], 600.0)
    assert not find_needles(tmp_path / "after", {"delta": first.delta})
    again.close()
    ledger.close()


def test_the_search_finds_what_was_hidden(tmp_path: Path) -> None:
    make = LEARNERS["tikhonov"]
    model = make()
    delta = model.update_records(model.records_of([VALUES], [0.25]), ()).delta
    hidden = {
        **needles_of_values(*VALUES),
        **needles_of_points(70_000, -80_000),
        **needles_of_statistics(delta),
        **needles_of_name(ANN),
    }
    for number, (what, needle) in enumerate(hidden.items()):
        file = tmp_path / f"{number}.db-wal"
        file.write_bytes(b"\x00" * 100 + needle + b"\xff" * 100)
        assert any(line.endswith(what) for line in find_needles(tmp_path, {what: needle})), what
        file.unlink()
    assert len(hidden) > 25
