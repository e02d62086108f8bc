"""A file that grows, is renamed, copied, truncated and replaced: every row enters once."""

import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest

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


def test_nothing_is_opened_while_nothing_changes(
    one: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Journal()) as journal:
        feed = one.feed(journal)
        assert sum(feed.poll()) == 100
        monkeypatch.setattr("os.open", lambda *_: pytest.fail("a file was opened"))
        assert list(feed.poll()) == []


@pytest.mark.parametrize("seed", range(8))
def test_any_sequence_of_growth_rotation_and_death_loses_and_doubles_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dealfl.network.feed._PART_BYTES", 2_000)
    draw, one, written, half = random.Random(seed), Following(tmp_path, name=""), 0, ""
    for _ in range(40):
        act = draw.choice(["grow", "grow", "grow", "rename", "copy", "poll", "poll", "die"])
        if act == "grow":
            head = "" if one.file.exists() and one.file.stat().st_size else HEADER
            count = draw.choice([1, 3, 40, 400])
            text = half + "".join(row(written + n) for n in range(count))
            half = text[len(text) - draw.randrange(4) :] if draw.random() < 0.5 else ""
            one.append(head + text[: len(text) - len(half)])
            written += count
        elif act in ("rename", "copy") and one.file.exists() and one.file.stat().st_size:
            one.append(half)  # whoever rotates lets the writer end its line
            half = ""
            for number in range(99, 0, -1):
                older = one.folder / f"data.csv.{number}"
                if older.exists():
                    older.rename(one.folder / f"data.csv.{number + 1}")
            if act == "rename":
                one.file.rename(one.folder / "data.csv.1")
            else:
                shutil.copy(one.file, one.folder / "data.csv.1")
                if draw.random() < 0.5:  # seen between copy and truncation
                    one.append(row(written))
                    written += 1
                    one.poll()
                one.file.write_bytes(b"")
        else:
            one.poll(1 if act == "die" else None)
    one.append(half)
    one.poll()
    assert sorted(one.rows) == list(range(written)), f"seed {seed}"
