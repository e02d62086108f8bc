"""The journal: transactions, order of use, deleted bytes, damaged and full disks."""

import resource
import sqlite3
from contextlib import closing, suppress
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dealfl.erasure import owner_hash
from dealfl.errors import BadBytes, BadInput, WriteFailed
from dealfl.protocol.messages import Erase, Position, Receipt
from dealfl.worker import Journal, State
from dealfl.worker.journal import Call
from tests.federation.parts import (
    KEY,
    Connect,
    assignment,
    learned_statistics,
    row,
    updates,
    welcomed,
)
from tests.server.test_damaged_ledgers import change_index

SECRET = b"a body that nobody else has: 0123456789"


def filled(path: Path, rows: int = 20) -> Journal:
    journal = Journal(path)
    with journal.transaction():
        journal.add([(b"owner %d" % n, SECRET + b"%d" % n) for n in range(rows)], State.WAITING)
    return journal


def test_an_entry_is_new_in_the_list_of_the_erased_once() -> None:
    journal = Journal()
    assert [journal.suppress(entry) for entry in (b"ann", b"bob", b"ann")] == [True, True, False]
    journal.readmit(b"ann")
    assert journal.suppress(b"ann")


def test_a_transaction_that_fails_leaves_nothing() -> None:
    journal = Journal()

    def half() -> None:
        with journal.transaction():
            journal.add([(b"o", b"b")], State.WAITING)
            journal.state.refused = "something"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert journal.count(State.WAITING) == 0
    assert journal.state.refused == ""


def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    first = filled(tmp_path / "j.db")
    journal_id = first.id
    first.close()
    second = Journal(tmp_path / "j.db")
    assert second.id == journal_id
    assert [record.body for record in second.records(State.WAITING)][:1] == [SECRET + b"0"]
    second.close()


def test_learning_counts_as_use() -> None:
    journal = Journal()
    old = journal.add([(b"o", b"1")], State.WAITING)
    new = journal.add([(b"o", b"2")], State.WAITING)
    journal.move(new, State.WAITING, State.LEARNED)
    journal.move(old, State.WAITING, State.LEARNED)
    assert [r.id for r in journal.records(State.LEARNED)] == [*new, *old]


def test_the_state_keeps_its_types_in_the_file(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "j.db")) as journal, journal.transaction():
        journal.state.carry = Fraction(1, 3)
        journal.state.call = Call(2, 0.5, float("inf"))
        journal.state.terms = ("a", "b")
    with closing(Journal(tmp_path / "j.db")) as journal:
        state = journal.state
        assert (state.carry, state.theta, state.terms) == (Fraction(1, 3), None, ("a", "b"))
        assert state.call == Call(2, 0.5, float("inf"))


def test_a_transaction_that_changes_nothing_writes_no_state() -> None:
    connect = Connect()
    journal = Journal(connect=connect)
    before = connect.db.total_changes
    with journal.transaction():
        journal.state.sequence = 0
    assert connect.db.total_changes == before


def test_positions_of_sources_are_stored_by_their_numbers() -> None:
    journal = Journal()
    for number in (1, 2, 1):
        journal.set_position(number, b"%d" % number)
    assert journal.positions() == {1: b"1", 2: b"2"}


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


def test_a_journal_whose_index_hides_an_owner_is_refused(tmp_path: Path) -> None:
    """Nobody would find what an erasure must delete."""
    with closing(Journal(tmp_path / "j.db")) as journal:
        journal.add([(b"ann", b"1"), (b"bob", b"2")], State.LEARNED)
    change_index(tmp_path / "j.db", "records_by_owner", b"bob", b"bop")
    with pytest.raises(BadBytes, match="missing from index records_by_owner"):
        Journal(tmp_path / "j.db")


def test_a_journal_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
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
    assert not journal.outgoing
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


def test_the_state_follows_failed_transactions_and_other_processes(tmp_path: Path) -> None:
    with (
        closing(Journal(tmp_path / "a.db")) as journal,
        closing(Journal(tmp_path / "a.db")) as other,
    ):
        with journal.transaction():
            journal.state.carry = Fraction(1, 2)
            assert journal.state.carry == Fraction(1, 2)
        with suppress(ZeroDivisionError), journal.transaction():
            journal.state.carry = Fraction(1, 3)
            raise ZeroDivisionError
        assert journal.state.carry == other.state.carry == Fraction(1, 2)
        with other.transaction():
            other.state.carry = Fraction(1, 5)
        with journal.transaction():
            assert journal.state.carry == Fraction(1, 5)


def test_a_journal_in_memory_gives_much_free_memory_back() -> None:
    journal = Journal()
    with journal.transaction():
        ids = journal.add([(b"owner", b"x" * (1 << 23)), (b"owner", b"y")], State.WAITING)
    with journal.transaction():
        journal.delete(ids[:1], State.WAITING)
    journal.compact_if_due(0.0)
    assert journal.size_bytes < 1 << 20
    assert [record.body for record in journal.records(State.WAITING)] == [b"y"]


def test_a_receipt_deletes_the_update_and_how_it_is_sent() -> None:
    connect = Connect()
    journal = Journal(journal_id="mark", connect=connect)
    one = welcomed(journal=journal)
    one.ingest([("ann", row(0.0, 0.5, 1.0))])
    (sent,) = updates(one.handle([assignment(1)], 1.0).messages)
    stored = "SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM sending)"
    assert connect.db.execute(stored).fetchone() == (1, 1)
    about: dict[str, Any] = {"session": sent.session, "incarnation": 1, "sequence": sent.sequence}
    one.handle([Receipt(job="job", worker="w", **about)], 2.0)
    assert connect.db.execute(stored).fetchone() == (0, 0)
    assert not journal.outgoing


def test_of_the_positions_reached_ever_fewer_are_told() -> None:
    journal = Journal()
    places = [Position(number, bytes([number]) * 32) for number in range(1, 101)]
    for before, after in pairwise([Position(), *places]):
        journal.note_reached(before, after)
    assert [place.number for place in journal.reached] == [100, 99, 98, 96, 92, 84, 68, 36]
    assert set(journal.reached) <= set(places)


class OlderJournal(Journal):
    """A journal with the pages and indexes of earlier files."""

    page_bytes = 4096
    tables = (
        Journal.tables.replace("(used, arrived, id) WHERE state = 1", "(state, used, arrived, id)")
        .replace("CREATE INDEX others_by_use ON records (state, used, arrived, id)", "SELECT 1")
        .replace(" WHERE state <> 1", "")
        .replace("(substr(owner, 1, 4))", "(owner)")
    )


def test_a_journal_with_other_pages_and_indexes_is_read_and_written(tmp_path: Path) -> None:
    with closing(OlderJournal(tmp_path / "j.db")) as older, older.transaction():
        ids = older.add([(b"ann", b"1"), (b"bob", b"2"), (b"ann", b"3")], State.WAITING)
        older.move(ids[:2], State.WAITING, State.LEARNED)
    with closing(Journal(tmp_path / "j.db")) as journal:
        assert journal.execute("PRAGMA page_size").fetchone() == (4096,)
        assert [record.body for record in journal.records(State.LEARNED)] == [b"1", b"2"]
        assert [journal.count(state) for state in State] == [1, 2, 0, 0]
        held = journal.records_of([b"ann"])
        assert [record.body for record in held[State.LEARNED]] == [b"1"]
        with journal.transaction():
            journal.delete([ids[0]], State.LEARNED)
