"""The ledger: what is damaged, newer or does not fit on the disk is found out."""

import resource
import sqlite3
from pathlib import Path

import pytest

from dealfl.errors import BadBytes, BadInput, WriteFailed
from dealfl.protocol import Position
from dealfl.server import Ledger, LedgerReader, WorkerRow
from dealfl.worker import Journal
from tests.federation.parts import Connect, announce, examples, joined, kinds, server, update


def test_a_transaction_that_fails_leaves_nothing() -> None:
    ledger = Ledger()

    def half() -> None:
        with ledger.transaction():
            ledger.put_workers([WorkerRow("w")])
            ledger.sums.replace_total(examples(3))
            ledger.change_state(schema=examples(3).schema)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert not ledger.workers()
    assert ledger.reader.total() is None


def test_a_thousand_terms_and_epochs_are_remembered() -> None:
    ledger = Ledger()
    terms, epochs = list[str](), [ledger.state.epoch]
    with ledger.transaction():
        for _ in range(1005):
            ledger.begin_term()
            terms.append(ledger.state.terms[-1])
            ledger.begin_epoch(f"other {len(epochs)}" if len(epochs) < 3 else "")
            epochs.append(ledger.state.epoch)
            if len(epochs) == 4:
                known = ledger.state.former_epochs
                assert set(known) == {*epochs[:3], "other 1", "other 2", ""}
    assert list(ledger.state.terms) == terms[-1000:]
    assert len(set(terms)) == len(terms)
    assert 998 <= len(ledger.state.former_epochs) <= 1000
    assert set(epochs[-999:-1]) <= set(ledger.state.former_epochs)


def test_a_request_that_is_put_again_is_the_same_entry() -> None:
    ledger = Ledger()
    first = ledger.erasures.put_part("r", (b"ann",), 1.0, "somebody")
    other = ledger.erasures.put_part("r", (b"bob",), 1.0, "somebody")
    assert first[1]
    assert other[1]
    assert ledger.erasures.put_part("r", (b"ann",), 2.0, "somebody") == (first[0], False)
    assert ledger.erasures.end().number == 2


def test_the_first_position_that_the_list_has_is_common() -> None:
    ledger = Ledger()
    places = []
    for name in ("r", "s", "t"):
        ledger.erasures.put(name, (name.encode(),), 0.0)
        places.append(ledger.erasures.end())
    lost = [Position(4, b"of a list that was longer"), Position(3, b"of another list")]
    for place in places:
        assert ledger.erasures.find_common([*lost, place, places[0]]) == place
    assert ledger.erasures.find_common(lost) == Position()


def test_a_part_of_the_list_cuts_no_request_and_has_one_at_least() -> None:
    ledger = Ledger()
    sizes = {"r": 2, "s": 3, "t": 1, "u": 7}
    for name, size in sizes.items():
        ledger.erasures.put(name, tuple(f"{name}{n}".encode() for n in range(size)), 0.0)
    end = ledger.erasures.end()
    found, place = list[int](), Position()
    while (part := ledger.erasures.part(place, end.number, 5)) is not None:
        assert part.before == place
        found.append(len(part.owners))
        place = part.after
    assert (found, place) == ([5, 1, 7], end)


def test_the_last_two_hundred_versions_are_listed() -> None:
    ledger = Ledger()
    for number in range(1, 206):
        ledger.erasures.put_version(number, "digest", 1.0, 0)
    assert [row.number for row in ledger.reader.versions()] == [*range(6, 206)]


def test_parts_of_a_state_are_replaced_added_and_deleted() -> None:
    ledger = Ledger()
    ledger.put_parts("selector", {"a": b"1", "b": b"2"})
    ledger.put_parts("other", {"a": b"9"})
    ledger.put_parts("selector", {"a": b"", "b": b"3", "c": b"4"})
    assert ledger.list_parts("selector") == {"b": b"3", "c": b"4"}
    assert ledger.list_parts("other") == {"a": b"9"}
    ledger.put_parts("selector", {})
    assert len(ledger.list_parts("selector")) == 2


def test_the_latest_time_is_that_of_the_last_event() -> None:
    ledger = Ledger()
    assert ledger.reader.latest_s() == 0.0
    one = joined("v", "w", ledger=ledger)
    one.handle([announce("v")], 5.0)
    assert ledger.reader.latest_s() == 5.0
    one.handle([update(1, name="v", round=1)], 6.5)
    assert ledger.reader.latest_s() == 6.5


def test_every_commit_waits_for_the_disk(tmp_path: Path) -> None:
    connect = Connect()
    ledger = Ledger(tmp_path / "l.db", connect=connect)
    assert connect.db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
    assert connect.db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    ledger.close()


def test_one_call_of_the_server_is_one_commit() -> None:
    connect = Connect()
    one = joined("v", "w", ledger=Ledger(connect=connect))
    statements: list[str] = []
    connect.db.set_trace_callback(statements.append)
    one.handle([update(1, name="v", round=1), update(1, round=1), announce("v")], 1.0)
    assert statements.count("BEGIN IMMEDIATE") == statements.count("COMMIT") == 1


@pytest.mark.parametrize(
    ("owner", "what"), [("w", "sum of w is damaged"), ("*", "total is damaged")]
)
def test_a_flipped_bit_in_statistics_is_found_out(owner: str, what: str) -> None:
    connect = Connect()
    ledger = Ledger(connect=connect)
    one = joined(ledger=ledger)
    one.handle([update(1, 3, round=1)], 1.0)
    which = "FROM pages WHERE owner = ? AND array = 1"
    saved = connect.db.execute(f"SELECT content {which}", (owner,)).fetchone()[0]
    for place in (0, len(saved) // 2, len(saved) - 1):
        damaged = bytearray(saved)
        damaged[place] ^= 4
        connect.db.execute("UPDATE pages SET content = ?", (bytes(damaged),))
        with pytest.raises(BadBytes, match=what):
            ledger.find_sum("w") if owner == "w" else server(ledger)


def test_a_damaged_sum_stops_the_server_with_a_clear_error_and_changes_nothing() -> None:
    connect = Connect()
    ledger = Ledger(connect=connect)
    one = joined(ledger=ledger)
    one.handle([update(1, 3, round=1)], 1.0)
    connect.db.execute("UPDATE pages SET sha256 = ?", (b"another hash",))
    digest = one.model.digest()
    with pytest.raises(BadBytes, match="restore a backup"):
        one.handle([update(2, round=2)], 2.0)
    assert one.model.digest() == digest
    assert ledger.updates.find("w", 1, 2) is None


def test_a_ledger_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    Ledger(tmp_path / "l.db").close()
    database = sqlite3.connect(tmp_path / "l.db")
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(BadInput, match="version 99"):
        Ledger(tmp_path / "l.db")


@pytest.mark.parametrize("damage", ["page", "head"])
def test_a_damaged_ledger_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "l.db"
    ledger = Ledger(path)
    with ledger.transaction():
        for number in range(300):
            ledger.put_workers([WorkerRow(f"w{number}")])
    ledger.checkpoint()
    ledger.close()
    content = bytearray(path.read_bytes())
    start, stop = (4096, len(content)) if damage == "page" else (0, 100)
    content[start:stop] = b"\xa5" * (stop - start)
    path.write_bytes(content)
    with pytest.raises(BadBytes, match="cannot be used"):
        Ledger(path)


def test_a_full_disk_is_an_error_and_the_update_counts_once_when_there_is_room(
    tmp_path: Path,
) -> None:
    ledger = Ledger(tmp_path / "l.db")
    one = joined(ledger=ledger)
    written = (tmp_path / "l.db-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (written + 100, hard))
    try:
        with pytest.raises(WriteFailed):
            one.handle([update(1, 3, round=1)], 1.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ledger.updates.find("w", 1, 1) is None
    assert one.model.statistics.is_zero, "what was not durable is in no model"
    assert "Receipt" in kinds(one.handle([update(1, 3, round=1)], 2.0).messages)
    assert one.model.statistics == examples(3)
    assert server(ledger).model.digest() == one.model.digest()
    ledger.close()


def test_the_bodies_of_counted_updates_are_deleted_and_their_keys_stay() -> None:
    connect = Connect()
    ledger = Ledger(connect=connect)
    one = joined(ledger=ledger)
    one.handle([update(1, 3, round=1)], 1.0)
    assert connect.db.execute("SELECT count(*) FROM updates WHERE delta").fetchone()[0] == 0
    assert ledger.updates.find("w", 1, 1) is not None


def test_a_reply_is_noted_once_and_only_of_those_selected() -> None:
    ledger = Ledger()
    ledger.rounds.open(1, 0.0, 60.0, {"w": 3}, eligible=1)
    assert ledger.rounds.put_reply(1, "w", 5.0)
    assert not ledger.rounds.put_reply(1, "w", 6.0)
    assert not ledger.rounds.put_reply(1, "stranger", 6.0)
    assert not ledger.rounds.put_reply(2, "w", 6.0)
    assert ledger.rounds.selected(1) == {"w": 5.0}


def test_a_reader_refuses_a_ledger_of_another_version(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.db")
    ledger.execute(f"PRAGMA user_version = {ledger.version + 1}")
    ledger.close()
    with pytest.raises(BadInput, match="upgrade dealfl"), LedgerReader.open(tmp_path / "l.db"):
        pass


def test_a_reader_refuses_a_journal(tmp_path: Path) -> None:
    Journal(tmp_path / "j.db").close()
    with pytest.raises(BadInput, match="is no ledger"), LedgerReader.open(tmp_path / "j.db"):
        pass
