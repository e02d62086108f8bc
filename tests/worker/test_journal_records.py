"""The records of a journal: their order, batches, states, counts and the index of their owners."""

import random
import sqlite3
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from dealfl.worker import Journal, State
from tests.federation.parts import Connect


def test_records_come_by_use_then_arrival_then_id() -> None:
    journal = Journal()
    first = journal.add([(b"o", b"1"), (b"o", b"2")], State.LEARNED)
    second = journal.add([(b"o", b"3")], State.LEARNED)
    assert [r.id for r in journal.records(State.LEARNED)] == [*first, *second]
    journal.touch(first[:1])
    assert [r.id for r in journal.records(State.LEARNED)] == [first[1], *second, first[0]]
    journal.touch([*second, first[1]])  # used together: the one that arrived earlier comes first
    assert [r.id for r in journal.records(State.LEARNED)] == [first[0], first[1], *second]
    assert [r.id for r in journal.records(State.LEARNED, 1)] == first[:1]


def has_owner_index(db: sqlite3.Connection) -> bool:
    return ("records_by_owner",) in db.execute("SELECT name FROM sqlite_master").fetchall()


def test_owners_are_indexed_in_every_file_and_in_memory_once_they_are_read(tmp_path: Path) -> None:
    with closing(Journal()) as journal:
        journal.add([(b"ann", b"body")], State.LEARNED)
        journal.write_copy(tmp_path / "copy.db")
        Journal(tmp_path / "new.db").close()
        for name in ("copy.db", "new.db"):
            with closing(sqlite3.connect(tmp_path / name)) as db:
                assert has_owner_index(db)
        with suppress(ZeroDivisionError), journal.transaction():
            assert journal.bodies_of([b"ann"], ()) == {b"ann": [b"body"]}
            raise ZeroDivisionError
        assert len(journal.records_of([b"ann"])[State.LEARNED]) == 1
        with closing(sqlite3.connect(":memory:")) as db:
            db.deserialize(journal.content())
            assert has_owner_index(db)


@pytest.mark.parametrize("read", ["bodies_of", "records_of"])
def test_whatever_reads_owners_first_indexes_them_in_memory(read: str) -> None:
    with closing(Journal()) as journal, closing(sqlite3.connect(":memory:")) as db:
        journal.add([(b"ann", b"body")], State.LEARNED)
        assert (
            journal.bodies_of([b"ann"], ()) if read == "bodies_of" else journal.records_of([b"ann"])
        )
        db.deserialize(journal.content())
        assert has_owner_index(db)


def test_short_histories_are_read_once(tmp_path: Path) -> None:
    connect = Connect()
    with closing(Journal(tmp_path / "journal.db", connect=connect)) as journal:
        journal.add([(b"ann", b"1"), (b"bob", b"2")], State.LEARNED)
        journal.add([(b"ann", b"3")], State.WAITING)
        assert journal.bodies_of([b"ann"], ()) == {b"ann": [b"1"]}
        queries: list[str] = []
        connect.db.set_trace_callback(queries.append)

        def reads() -> bool:
            return any(query.startswith("SELECT") for query in queries)

        assert journal.bodies_of([b"ann"], ()) == {b"ann": [b"1"]}
        assert not reads()
        (new,), (gone, _) = journal.records(State.WAITING), journal.records(State.LEARNED)
        with journal.transaction():
            journal.change_learned([new], [gone], recoverable=False)
        queries.clear()
        assert journal.bodies_of([b"ann"], ()) == {b"ann": [b"3"]}
        assert not reads(), "what a training changes is changed in memory, too"


@pytest.mark.parametrize("size", [0, 1, 7, 8, 63, 64, 65, 200])
def test_batches_of_every_size_keep_their_order(size: int) -> None:
    journal = Journal()
    journal.add([(b"owner", b"first")], State.WAITING)
    rows = [(b"owner %d" % n, b"%d" % n) for n in range(size)]
    ids = journal.add(rows, State.LEARNED)
    assert journal.records(State.LEARNED) == [(n, *row) for n, row in zip(ids, rows, strict=True)]
    assert journal.count(State.WAITING) == 1


def test_only_the_given_records_move_and_only_from_their_state() -> None:
    journal = Journal()
    ids = journal.add([(b"owner", b"body")] * 9, State.WAITING)
    journal.move([ids[4]], State.WAITING, State.GRACE)
    journal.move([ids[n] for n in (7, 3, 4, 5, 1, 3)], State.WAITING, State.LEARNED)
    moved = [one.id for one in journal.records(State.LEARNED)]
    assert moved == [ids[n] for n in (1, 3, 5, 7)]
    assert [journal.count(state) for state in State] == [4, 4, 1, 0]


def test_counts_follow_every_change_and_a_failed_one() -> None:
    journal = Journal()
    ids = journal.add([(b"owner", b"body")] * 5, State.WAITING)
    assert journal.count(State.WAITING) == 5
    with suppress(ZeroDivisionError), journal.transaction():
        journal.add([(b"owner", b"body")], State.WAITING)
        assert journal.count(State.WAITING) == 6
        raise ZeroDivisionError
    assert journal.count(State.WAITING) == 5
    journal.move(ids[:2], State.WAITING, State.LEARNED)
    assert (journal.count(State.WAITING), journal.count(State.LEARNED)) == (3, 2)
    before = journal.content()
    journal.delete(ids, State.WAITING)  # only those that wait
    assert (journal.count(State.WAITING), journal.count(State.LEARNED)) == (0, 2)
    journal.delete(ids, State.LEARNED)
    assert (journal.count(State.WAITING), journal.count(State.LEARNED)) == (0, 0)
    journal.replace_content(before)
    assert (journal.count(State.WAITING), journal.count(State.LEARNED)) == (3, 2)


@pytest.mark.parametrize("seed", range(5))
def test_histories_in_memory_are_those_of_the_file(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dealfl.worker.journal._MAX_KEPT", 4)
    journal, draw, owners = Journal(), random.Random(seed), [b"ann", b"bob", b"cy"]
    for step in range(60):
        with suppress(KeyboardInterrupt), journal.transaction():
            journal.add([(draw.choice(owners), b"%d" % (step % 7))], State.WAITING)
            new, held = (journal.records(one) for one in (State.WAITING, State.LEARNED))
            gone = draw.sample(held, min(len(held), draw.randrange(3)))
            for owner, rest in journal.bodies_of(owners, gone).items():
                stay = [one.body for one in held if one.owner == owner and one not in gone]
                assert sorted(rest) == sorted(stay)
            journal.change_learned(new, gone, recoverable=draw.random() < 0.5)
            if draw.random() < 0.2:
                raise KeyboardInterrupt
        stored = journal.records_of(owners)[State.LEARNED]
        by_owner = {one: [r.body for r in stored if r.owner == one] for one in owners}
        found = journal.bodies_of(draw.sample(owners, 2), ())
        assert all(sorted(some) == sorted(by_owner[one]) for one, some in found.items())
        kept: dict[bytes, list[bytes]] = journal.keep("histories", dict)
        assert all(len(some) <= 4 for some in kept.values()), "long histories stay in the file"


@pytest.mark.parametrize("seed", range(5))
def test_waiting_records_in_memory_are_those_of_the_file(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dealfl.worker.journal._MAX_WAITING", 6)
    journal, draw, kept = Journal(), random.Random(seed), 0
    for step in range(80):
        with suppress(KeyboardInterrupt), journal.transaction():
            known = journal.count(State.WAITING)  # then it is also known when none waits
            rows = [(b"owner", b"%d" % step)] * draw.randrange(4)
            ids = journal.add(rows, draw.choice((State.WAITING, State.WAITING, State.VALIDATION)))
            waiting = journal.waiting()
            assert len(waiting) - known in (0, len(ids))
            assert waiting == journal.records(State.WAITING)
            kept += "waiting" in journal._kept
            if draw.random() < 0.3:
                some = [one.id for one in draw.sample(waiting, len(waiting) // 2)]
                draw.choice((journal.touch, partial(journal.delete, state=State.WAITING)))(some)
            if draw.random() < 0.3:
                journal.move(ids, State.VALIDATION, State.WAITING)
            if draw.random() < 0.3:
                journal.change_learned(journal.waiting(), (), recoverable=False)
            if draw.random() < 0.2:
                raise KeyboardInterrupt
        assert journal.waiting() == journal.records(State.WAITING)
    assert kept > 5
