"""A file that grows, is renamed, copied, truncated and replaced: every row enters once."""

import errno
import os
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest

from dealfl.network.feed import GrowingFiles
from dealfl.worker import Journal
from tests.network.feeding import HEADER, Following, row


@pytest.fixture
def one(tmp_path: Path) -> Following:
    following = Following(tmp_path)
    following.append(HEADER + "".join(map(row, range(100))))
    return following


def test_rows_enter_once_and_a_line_without_an_end_waits(one: Following) -> None:
    one.append("100,1")
    assert one.poll() == 100
    assert one.poll() == 0
    one.append("00.5\n101,")
    assert one.poll() == 1
    one.append("1\n")
    assert one.poll() == 1
    assert one.rows == list(range(102))


def test_the_rest_of_a_renamed_file_is_read(one: Following) -> None:
    one.poll()
    one.append(row(100) + "101,")
    one.file.rename(one.folder / "data.csv.1")
    one.append("7\n", "data.csv.1")
    one.append(HEADER + row(102))
    assert one.poll() == 3
    assert sorted(one.rows) == list(range(103))


def test_files_that_came_and_went_while_nobody_looked_are_read(one: Following) -> None:
    one.poll()
    one.file.rename(one.folder / "data.csv.2")
    one.append(HEADER + row(100), "data.csv.1")
    one.append(HEADER + row(101))
    assert one.poll() == 2


@pytest.mark.parametrize("late", ["", row(900)])
def test_the_rest_of_a_copied_and_truncated_file_is_read(one: Following, late: str) -> None:
    one.poll()
    one.append(row(100))
    one.copy_and_truncate(late)  # late rows are lost by the rotation itself
    one.append(HEADER + row(101))
    assert one.poll() == 2
    assert one.poll() == 0


def test_a_copy_is_not_read_again_while_its_original_is_still_there(one: Following) -> None:
    one.poll()
    shutil.copy(one.file, one.folder / "data.csv.1")
    assert one.poll() == 0
    one.append(row(100))  # after the copy: the copy is shorter than what was read
    assert one.poll() == 1
    one.file.write_text(HEADER + row(101))
    assert one.poll() == 1
    one.file.write_text("")
    (one.folder / "data.csv.1").rename(one.folder / "data.csv.2")
    assert one.poll() == 0


def test_a_truncated_file_that_has_grown_past_the_old_end_is_new(one: Following) -> None:
    one.poll()
    one.file.write_text(HEADER + "".join(map(row, range(100, 400))))
    assert one.poll() == 300


def test_a_new_file_with_the_first_rows_of_the_old_one_is_new(one: Following) -> None:
    one.poll()
    one.file.rename(one.folder / "data.csv.1")
    one.append(HEADER + row(0) + row(1))
    assert one.poll() == 2


def test_a_restored_file_continues(one: Following) -> None:
    one.poll()
    text = one.file.read_text()
    one.file.unlink()
    (one.folder / "other").write_text("the inode is taken")
    one.file.write_text(text + row(100))
    assert one.poll() == 1


def test_a_folder_that_was_copied_to_another_disk_continues(one: Following) -> None:
    one.append(HEADER + row(200), "data.csv.1")
    assert one.poll() == 101
    one.folder.rename(one.folder.parent / "old")
    shutil.copytree(one.folder.parent / "old", one.folder)
    one.append(row(100))
    assert one.poll() == 1


def test_packed_and_foreign_files_are_not_read(one: Following) -> None:
    for name in ("data.csv.2.gz", "data.csv.bak", "other.csv", ".data.csv", "data.csv~"):
        one.append(HEADER + row(1), name)
    assert one.poll() == 100
    assert one.said == ["data.csv.2.gz is packed; it is not read"]


def test_a_header_that_is_replaced_before_the_first_row_counts(tmp_path: Path) -> None:
    one = Following(tmp_path)
    with closing(Journal(tmp_path / "journal.db")) as journal:
        feed = one.feed(journal)
        for text in (HEADER, "y,x\n1,7\n"):
            one.file.write_text(text)
            list(feed.poll())
    assert one.rows == [7]


def test_rows_and_their_position_are_stored_together_or_not_at_all(
    one: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    with monkeypatch.context() as broken:
        broken.setattr("dealfl.worker.Journal.add", fail)
        assert one.poll() == 0
    assert one.said == ["data.csv cannot be read: the disk is broken"]
    assert one.poll() == 100


def test_the_journal_does_not_contain_names_of_files(one: Following, tmp_path: Path) -> None:
    one.poll()
    assert b"data.csv" not in (tmp_path / "journal.db").read_bytes()


def test_nothing_is_opened_while_nothing_changes(
    one: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Journal()) as journal:
        feed = one.feed(journal)
        assert sum(feed.poll()) == 100
        monkeypatch.setattr("os.open", lambda *_: pytest.fail("a file was opened"))
        assert list(feed.poll()) == []


class Writer:
    """Writes rows and rotates the file, at random."""

    def __init__(self, one: Following, seed: int) -> None:
        self.one, self.draw = one, random.Random(seed)
        self.written, self._half = 0, ""

    def grow(self) -> None:
        """Append rows; the last line may wait for its end."""
        empty = not self.one.file.exists() or not self.one.file.stat().st_size
        count = self.draw.choice([1, 3, 40, 400])
        text = self._half + "".join(row(self.written + n) for n in range(count))
        cut = len(text) - self.draw.choice([0, 0, 1, 2, 3])
        self._half = text[cut:]
        self.one.append(HEADER * empty + text[:cut])
        self.written += count

    def act(self) -> None:
        """Do something while the worker reads."""
        if self.draw.random() < 0.5:
            self.grow()
        else:
            self.rotate(seen=False)

    def rotate(self, *, seen: bool = True) -> None:
        """End the last line, then rename the file, or copy and truncate it."""
        if not self.one.file.exists() or not self.one.file.stat().st_size:
            return
        self.end_line()
        for number in range(99, 0, -1):
            older = self.one.folder / f"data.csv.{number}"
            if older.exists():
                older.rename(self.one.folder / f"data.csv.{number + 1}")
        if self.draw.random() < 0.5:
            self.one.file.rename(self.one.folder / "data.csv.1")
            return
        shutil.copy(self.one.file, self.one.folder / "data.csv.1")
        if (
            seen and self.draw.random() < 0.5
        ):  # a row between copy and truncation, seen by the worker
            self.one.append(row(self.written))
            self.written += 1
            self.one.poll()
        self.one.file.write_bytes(b"")

    def end_line(self) -> None:
        if self._half:
            self.one.append(self._half)
        self._half = ""


@pytest.mark.parametrize("seed", range(8))
def test_any_sequence_of_growth_rotation_and_death_loses_and_doubles_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dealfl.network.feed._PART_BYTES", 2_000)
    one = Following(tmp_path, name="")
    writer = Writer(one, seed)
    acts: list[Callable[[], object]] = [
        writer.grow, writer.grow, writer.grow, writer.rotate, writer.rotate, one.poll,
        lambda: one.poll(between=writer.act, parts=5),
        lambda: one.poll(parts=1),  # killed after a transaction
    ]  # fmt: skip
    for act in writer.draw.choices(acts, k=40):
        act()
    writer.end_line()
    one.poll()
    assert sorted(one.rows) == list(range(writer.written)), f"seed {seed}"


def rename(one: Following) -> None:
    one.file.rename(one.folder / "data.csv.1")
    one.append(HEADER)


def replace(one: Following) -> None:
    shutil.copy(one.file, one.folder / "new")
    (one.folder / "new").replace(one.file)


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES])
@pytest.mark.parametrize("change", [lambda _: None, Following.copy_and_truncate, rename, replace])
def test_files_that_cannot_be_read_for_a_moment_enter_once(
    one: Following,
    change: Callable[[Following], None],
    number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    with closing(Journal(one.folder.parent / "journal.db")) as journal:
        feed = one.feed(journal)
        assert sum(feed.poll()) == 100
        one.append(row(100))
        change(one)
        with monkeypatch.context() as patch:
            patch.setattr(GrowingFiles, "open", fail)
            assert sum(feed.poll()) == 0
        one.append(row(101) if one.file.stat().st_size else HEADER + row(101))
        assert sum(feed.poll()) + sum(feed.poll()) == 2
    assert sorted(one.rows) == list(range(102))


def test_a_file_that_was_rewritten_while_it_could_not_be_read_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Following(tmp_path)
    one.append(HEADER + row(10))
    with closing(Journal(tmp_path / "journal.db")) as journal:
        feed = one.feed(journal)
        assert sum(feed.poll()) == 1
        one.copy_and_truncate()
        one.append(HEADER + row(11))  # as long as before
        with monkeypatch.context() as patch:
            patch.setattr(GrowingFiles, "continues", lambda *_, **__: True)  # cannot be read
            assert sum(feed.poll()) == 0
        assert sum(feed.poll()) == 1
    assert one.rows == [10, 11]
