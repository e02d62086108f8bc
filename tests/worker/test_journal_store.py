"""The journal: transactions, order of use, deleted bytes, damaged and full disks."""

import random
import resource
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dealfl.erasure import owner_hash
from dealfl.errors import BadBytes, BadInput, WriteFailed
from dealfl.messages import Erase
from dealfl.worker import Journal, State
from tests.federation.parts import (
    KEY,
    Connect,
    assignment,
    learned_statistics,
    row,
    updates,
    welcomed,
)

SECRET = b"a body that nobody else has: 0123456789"


def filled(path: Path, rows: int = 20) -> Journal:
    journal = Journal(path)
    with journal.transaction():
        journal.add([(b"owner %d" % n, SECRET + b"%d" % n) for n in range(rows)], State.WAITING)
    return journal


def test_a_transaction_that_fails_leaves_nothing() -> None:
    journal = Journal()

    def half() -> None:
        with journal.transaction():
            journal.add([(b"o", b"b")], State.WAITING)
            journal.set_setting("name", "value")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert journal.count(State.WAITING) == 0
    assert journal.setting("name", "none") == "none"


def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    first = filled(tmp_path / "j.db")
    journal_id = first.id
    first.close()
    second = Journal(tmp_path / "j.db")
    assert second.id == journal_id
    assert [record.body for record in second.records(State.WAITING)][:1] == [SECRET + b"0"]
    second.close()


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


def test_learning_counts_as_use() -> None:
    journal = Journal()
    old = journal.add([(b"o", b"1")], State.WAITING)
    new = journal.add([(b"o", b"2")], State.WAITING)
    journal.move(new, State.WAITING, State.LEARNED)
    journal.move(old, State.WAITING, State.LEARNED)
    assert [r.id for r in journal.records(State.LEARNED)] == [*new, *old]


def test_settings_are_found_by_the_beginning_of_their_names() -> None:
    journal = Journal()
    for name in ("file 1", "file 2", "files", "a file 3"):
        journal.set_setting(name, name.upper())
    assert journal.settings("file ") == {"file 1": "FILE 1", "file 2": "FILE 2"}
    assert journal.settings("none") == {}


def bytes_in(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.iterdir()))


def test_after_compacting_the_bytes_of_a_deleted_record_are_nowhere(tmp_path: Path) -> None:
    journal = filled(tmp_path / "j.db", rows=200)
    assert SECRET + b"7" in bytes_in(tmp_path)
    with journal.transaction():
        journal.delete([r.id for r in journal.records(State.WAITING)], State.WAITING)
    journal.compact()
    names = {path.name for path in tmp_path.iterdir()}
    assert {"j.db", "j.db-wal", "j.db-shm"} <= names, "the log was looked into, too"
    assert SECRET not in bytes_in(tmp_path)
    journal.close()


def test_the_bytes_of_a_deleted_record_are_overwritten_where_others_stay(tmp_path: Path) -> None:
    journal = filled(tmp_path / "j.db")
    journal.checkpoint()
    assert bytes_in(tmp_path).count(SECRET) == 20
    with journal.transaction():
        journal.delete([r.id for r in journal.records(State.WAITING)[5:9]], State.WAITING)
    journal.checkpoint()
    assert bytes_in(tmp_path).count(SECRET) == 16
    journal.close()


def test_an_erasure_leaves_no_byte_of_record_or_update(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    one = welcomed(journal=journal)
    bodies = row(0.125, 0.375, 0.625), row(1.0, 1.0, 0.0, target="b")
    one.ingest([("Ann Example", bodies[0]), ("bob", bodies[1])])
    (sent,) = updates(one.handle([assignment(1)], 1.0).messages)
    order = Erase(job="job", worker="", request="r", owners=(owner_hash(KEY, "Ann Example"),))
    one.handle([order], 2.0)
    assert bodies[0] not in bytes_in(tmp_path)
    assert b"Ann Example" not in bytes_in(tmp_path)
    assert len(learned_statistics(journal)["counts"]) == 1
    assert sent.sequence == 1
    journal.close()


def test_a_journal_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "j.db").close()
    database = sqlite3.connect(tmp_path / "j.db")
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(BadInput, match="version 99"):
        Journal(tmp_path / "j.db")


@pytest.mark.parametrize("damage", ["page", "head", "not a database"])
def test_a_damaged_journal_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "j.db"
    journal = filled(path, rows=500)
    journal.compact()
    journal.close()
    content = bytearray(path.read_bytes())
    start, stop = {"page": (2 * 4096, len(content)), "head": (0, 100), "not a database": (0, 16)}[
        damage
    ]
    content[start:stop] = b"\xa5" * (stop - start)
    path.write_bytes(content)
    with pytest.raises(BadBytes, match="cannot be used"):
        Journal(path)


def test_a_journal_that_can_not_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadBytes, match="cannot be used"):
        Journal(tmp_path / "no such directory" / "j.db")


def test_a_full_disk_is_an_error_that_leaves_nothing_half_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    one = welcomed(journal=journal)
    one.ingest([("ann", row(0.0, 0.5, 1.0))] * 5)
    written = (tmp_path / "j.db-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (written + 100, hard))
    try:
        with pytest.raises(WriteFailed):
            one.handle([assignment(1)], 1.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (journal.count(State.WAITING), journal.count(State.LEARNED)) == (5, 0)
    assert not journal.outbox()
    (sent,) = updates(one.handle([assignment(1)], 2.0).messages)  # there is room again
    assert sent.learned == 5
    journal.close()


def test_a_full_database_is_an_error_that_leaves_nothing_half_written(tmp_path: Path) -> None:
    connect = Connect()
    journal = Journal(tmp_path / "j.db", connect=connect)
    pages = connect.db.execute("PRAGMA page_count").fetchone()[0]
    connect.db.execute(f"PRAGMA max_page_count = {pages}")
    one = welcomed(journal=journal)
    with pytest.raises(WriteFailed, match="full"):
        one.ingest([(f"person {n}", row(0.0, 0.5, 1.0)) for n in range(500)])
    assert journal.count(State.WAITING) == 0
    journal.close()


def test_only_the_newest_published_model_is_kept() -> None:
    journal = Journal()
    for version in (2, 1, 3):
        journal.put_published(version, b"%d" % version)
    assert journal.published() == (3, b"3")
    journal.put_published(2, b"late")
    assert journal.published() == (3, b"3")


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


def test_settings_follow_failed_transactions_and_other_processes(tmp_path: Path) -> None:
    with (
        closing(Journal(tmp_path / "a.db")) as journal,
        closing(Journal(tmp_path / "a.db")) as other,
    ):
        with journal.transaction():
            journal.set_setting("carry", "1/2")
            assert journal.setting("carry", "") == "1/2"
        with suppress(ZeroDivisionError), journal.transaction():
            journal.set_setting("carry", "1/3")
            raise ZeroDivisionError
        assert journal.setting("carry", "") == other.setting("carry", "") == "1/2"
        with other.transaction():
            other.set_setting("carry", "1/5")
        with journal.transaction():
            assert journal.setting("carry", "") == "1/5"


def test_a_journal_in_memory_gives_much_free_memory_back() -> None:
    journal = Journal()
    with journal.transaction():
        ids = journal.add([(b"owner", b"x" * (1 << 23)), (b"owner", b"y")], State.WAITING)
    with journal.transaction():
        journal.delete(ids[:1], State.WAITING)
    journal.compact_if_due(0.0)
    assert journal.size_bytes < 1 << 20
    assert [record.body for record in journal.records(State.WAITING)] == [b"y"]


@pytest.mark.parametrize("seed", range(5))
def test_histories_in_memory_are_those_of_the_file(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dealfl.worker.journal._MAX_KEPT", 4)
    journal, draw, owners = Journal(), random.Random(seed), [b"ann", b"bob", b"cy"]
    for step in range(60):
        with suppress(KeyboardInterrupt), journal.transaction():
            journal.add([(draw.choice(owners), b"%d" % step)], State.WAITING)
            new, held = (journal.records(one) for one in (State.WAITING, State.LEARNED))
            gone = draw.sample(held, min(len(held), draw.randrange(3)))
            journal.change_learned(new, gone, recoverable=draw.random() < 0.5)
            if draw.random() < 0.2:
                raise KeyboardInterrupt
        stored = journal.records_of(owners)[State.LEARNED]
        by_owner = {one: [r.body for r in stored if r.owner == one] for one in owners}
        found = journal.bodies_of(draw.sample(owners, 2), ())
        assert all(sorted(some) == sorted(by_owner[one]) for one, some in found.items())
        kept: dict[bytes, list[bytes]] = journal.keep("histories", dict)
        assert all(len(some) <= 4 for some in kept.values()), "long histories stay in the file"
