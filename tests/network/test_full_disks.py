"""A full disk: nothing is lost, everything is done when it can be written, and people are told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dealfl.cli.printing import say_state
from dealfl.cli.serve import _warnings_shown as warnings_shown
from dealfl.errors import WriteFailed
from dealfl.network.pump import RealPump
from dealfl.protocol import Message, Step
from dealfl.storage import Database
from dealfl.worker import Journal
from tests.federation.parts import joined, kinds, update, welcomed, worker
from tests.network.feeding import HEADER, Following, row
from tests.runs.test_full_disk import small_files

FULL = WriteFailed("ledger.db cannot be written: disk full; free disk space")


def test_rows_wait_for_space_and_are_stored_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    following = Following(tmp_path)
    following.append(HEADER + "".join(map(row, range(10))))
    with closing(Journal(tmp_path / "journal.db")) as journal:
        feed = following.feed(journal)
        assert sum(feed.poll()) == 10
        following.append("".join(map(row, range(10, 3000))))
        with small_files(100_000):
            assert [sum(feed.poll()), sum(feed.poll())] == [0, 0]
        assert "cannot be written" in feed.problem
        assert sum(feed.poll()) == 2990
        assert not feed.problem
    assert following.rows == list(range(3000))
    told = [record.getMessage() for record in caplog.records]
    assert ["rows wait" in told[0], "stored again" in told[1], len(told)] == [True, True, 2]


def test_a_rotation_that_cannot_be_stored_is_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = Following(tmp_path)
    following.append(HEADER + row(0))
    with closing(Journal(tmp_path / "journal.db")) as journal:
        feed = following.feed(journal)
        assert sum(feed.poll()) == 1
        following.file.rename(following.folder / "data.csv.1")
        following.append(HEADER + row(1))
        with monkeypatch.context() as patch:

            def ingest(*_: object) -> None:
                raise FULL

            patch.setattr(feed.worker, "ingest", ingest)
            assert sum(feed.poll()) == 0
        before = journal.positions()
        assert sum(feed.poll()) == 1
        assert journal.positions().keys() > before.keys()
        assert journal.positions()[1] != before[1], "where the first file is now"
    assert following.rows == [0, 1]


def test_changes_beside_messages_are_made_as_soon_as_there_is_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dealfl.network.pump._PAUSE_S", 0.01)
    done: list[str] = []
    failures = [FULL, FULL]

    def confirm() -> None:
        if failures:
            raise failures.pop()
        done.append("confirmed")

    async def run() -> None:
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pump = RealPump(lambda *_: Step((), None), lambda _: None, failed)
        pump.change(confirm)
        pump.change(lambda: done.append("flagged"))
        await asyncio.sleep(0.005)
        assert "disk full" in pump.problem
        while len(done) < 2:
            await asyncio.sleep(0.005)
        assert not pump.problem
        assert not failed.done()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert done == ["confirmed", "flagged"]


def test_a_worker_that_could_not_write_announces_itself_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    phone = welcomed()
    while phone.handle((), 1.0).messages:
        pass
    phone.reconnect()
    with monkeypatch.context() as patch:

        def write(_: Database) -> None:
            raise FULL

        patch.setattr(Journal, "_write_changes", write)
        with pytest.raises(WriteFailed):
            phone.handle((), 2.0)
    assert kinds(phone.handle((), 3.0).messages) == ["Announce"]


def test_a_compaction_that_finds_no_space_loses_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = worker(journal=Journal(tmp_path / "journal.db"))
    assert phone.handle((), 0.0).messages

    def compact(_: Database) -> bool:
        raise FULL

    monkeypatch.setattr(Database, "_must_compact", lambda *_: True)
    monkeypatch.setattr(Database, "compact", compact)
    phone.reconnect()
    assert kinds(phone.handle((), 1.0).messages) == ["Announce"]


def test_an_erasure_that_finds_no_space_is_refused_and_can_be_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = joined("w")
    one.handle([update(1)], 0.0)
    digest = one.model.digest()
    with monkeypatch.context() as patch:

        def write(_: Database) -> None:
            raise FULL

        patch.setattr("dealfl.server.Ledger._write_changes", write)
        with pytest.raises(WriteFailed):
            one.erase("r", [bytes(32)], 1.0)
    assert one.reader.count_erasures() == (0, 0)
    assert one.model.digest() == digest
    assert kinds(one.erase("r", [bytes(32)], 2.0).messages) == ["Erase"]


def test_a_process_whose_output_finds_no_space_handles_the_same_messages_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What waits was never handled again if the reason could not be printed."""
    monkeypatch.setattr("dealfl.network.pump._PAUSE_S", 0.01)
    handled = list[int]()

    def handle(messages: Iterable[Message], now_s: float) -> Step:
        handled.append(len(list(messages)))
        if len(handled) == 1:
            raise FULL
        return Step((), None)

    async def run() -> None:
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pump = RealPump(handle, lambda _: None, failed)
        pump.put([update(1)])
        while len(handled) < 2:
            await asyncio.sleep(0.005)

    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stderr", full)
        with warnings_shown():
            asyncio.run(asyncio.wait_for(run(), 5))
        say_state("connected")
        monkeypatch.undo()
        with suppress(OSError):
            full.close()
    assert handled == [1, 1]
