"""Pages really leave memory; full disks and damaged files are told, and lose nothing."""

import errno
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dealfl.errors import BadBytes, BadInput
from dealfl.memory import BudgetedThetaLru, Lru, Policy, major_faults
from dealfl.memory.frames import Frames
from tests.memory.arrays import (
    PAGE_BYTES,
    POLICIES,
    WIDE_PAGE,
    cells,
    on_a_disk,
    opened,
)

every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
SIZE = 6 * WIDE_PAGE


def test_counted_swaps_are_the_real_major_faults_from_cold_pages(tmp_path: Path) -> None:
    if not on_a_disk(tmp_path):
        pytest.skip(f"NOT MEASURED: {tmp_path} is not on a disk, so that pages never leave memory")
    pages, per_page = 300, WIDE_PAGE
    starts = np.arange(0, pages * per_page, per_page)
    filled = opened(tmp_path / "a", pages, pages)
    filled.put(starts, starts + 1)
    filled.flush()
    with (tmp_path / "a").open("rb") as file:
        os.fdatasync(file.fileno())
    filled.close()
    frames = Frames(Lru(30))
    array = opened(tmp_path / "a", pages, shared=frames)
    with (tmp_path / "a").open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    order = np.random.default_rng(0).permutation(np.tile(starts, 2))
    before = major_faults()
    read = [array.at(order[place : place + 1])[0] for place in range(len(order))]
    real = major_faults() - before
    assert np.array_equal(read, order + 1)
    assert 500 < frames.swaps.ins <= 600
    assert abs(real - frames.swaps.ins) <= 0.02 * frames.swaps.ins
    array.close()


def test_pages_that_left_are_not_in_memory(tmp_path: Path) -> None:
    if not on_a_disk(tmp_path):
        pytest.skip(f"NOT MEASURED: {tmp_path} is not on a disk, so that pages never leave memory")
    array = opened(tmp_path / "a", pages=1000, frames=5, sync=os.fdatasync)
    everything = np.arange(0, len(array), WIDE_PAGE)
    array.put(everything, everything)

    def mapped_kb() -> int:
        lines = Path("/proc/self/smaps").read_text().split(str(tmp_path / "a"))[1].splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))

    assert mapped_kb() <= (5 + 1) * PAGE_BYTES / 1024  # the kernel may map the header along
    array.close()


def _failing(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("dealfl.memory.page_file.os.pwrite", fail)


@every_policy
def test_a_full_disk_loses_nothing_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Callable[[int], Policy]
) -> None:
    array = opened(tmp_path / "a", policy=policy, frames=4)
    everything = np.arange(SIZE)
    array.put(everything, everything + 1)
    with monkeypatch.context() as full:
        _failing(full, errno.ENOSPC)
        array.put(everything, everything + 2)  # half of a change would be worse than a full memory
        assert np.array_equal(array.at(everything), everything + 2)
        with pytest.raises(BadInput, match=r"/a: .* No space left on device; no change is lost"):
            array.flush()
        assert np.array_equal(array.at(everything), everything + 2)
    array.flush()
    assert array.resident <= 4
    array.close()
    again = opened(tmp_path / "a")
    assert np.array_equal(again.at(everything), everything + 2)
    again.close()


def test_a_disk_that_stays_full_stops_reading_before_memory_runs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = opened(tmp_path / "a", frames=1)
    everything = np.arange(SIZE)
    _failing(monkeypatch, errno.EIO)
    array.put(everything, everything + 1)
    with pytest.raises(BadInput, match=r"cannot be written: .*; no change is lost"):
        array.at(cells(0))
    array.abandon()


def test_a_page_that_could_not_leave_is_used_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = opened(tmp_path / "a", shared=Frames(BudgetedThetaLru(2, 0.5)))
    first, second, third = cells(0), cells(WIDE_PAGE), cells(2 * WIDE_PAGE)
    _failing(monkeypatch, errno.ENOSPC)
    for place in (first, second, third):
        array.put(place, cells(5))
    assert array.at(first).tolist() == [5]  # it lost its frame, and the round's budget is spent
    array.put(first, cells(6))
    assert array.at(first).tolist() == [6]
    array.abandon()


def test_a_disk_without_room_for_the_array_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(
        BadInput, match=r"/a cannot be created: No space left .* 28672 bytes on disk"
    ):
        opened(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def _spoiled(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("offset", [0, 1, 100, 8 * WIDE_PAGE - 1, PAGE_BYTES - 8, PAGE_BYTES - 1])
def test_a_damaged_page_is_known_when_it_is_read(tmp_path: Path, offset: int) -> None:
    array = opened(tmp_path / "a")
    array.put(cells(0, 3 * WIDE_PAGE), cells(5, 6))
    array.close()
    _spoiled(tmp_path / "a", 4 * PAGE_BYTES + offset)
    again = opened(tmp_path / "a")
    assert again.at(cells(0)).tolist() == [5]
    for _ in range(2):
        with pytest.raises(BadBytes, match=r"/a: page 3 is damaged; delete it and train again"):
            again.at(cells(3 * WIDE_PAGE))
    again.abandon()


def test_a_page_in_the_wrong_place_is_known(tmp_path: Path) -> None:
    array = opened(tmp_path / "a")
    array.put(cells(0), cells(5))
    array.close()
    data = (tmp_path / "a").read_bytes()
    moved = data[: 2 * PAGE_BYTES] + data[PAGE_BYTES : 2 * PAGE_BYTES] + data[3 * PAGE_BYTES :]
    (tmp_path / "a").write_bytes(moved)
    again = opened(tmp_path / "a")
    with pytest.raises(BadBytes, match="page 1 is damaged"):
        again.at(cells(WIDE_PAGE))
    again.abandon()


@pytest.mark.parametrize("offset", range(28))
def test_a_damaged_header_is_refused(tmp_path: Path, offset: int) -> None:
    opened(tmp_path / "a").close()
    _spoiled(tmp_path / "a", offset)
    with pytest.raises(BadBytes, match=r"/a.*(not a page file|damaged header)"):
        opened(tmp_path / "a")


def test_files_of_other_versions_sizes_and_kinds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    opened(path).close()
    with pytest.raises(BadInput, match="has 3066 cells of 8 bytes, not 6132 cells of 4"):
        opened(path, kind="<i4")
    with pytest.raises(BadInput, match=r"has 3066 cells .*, not 3577 .*use another folder"):
        opened(path, pages=7)
    whole = path.read_bytes()
    for other in (whole[:-1], whole + b"x", whole[:PAGE_BYTES]):
        path.write_bytes(other)
        with pytest.raises(BadBytes, match=r"bytes instead of 28672; delete it and train again"):
            opened(path)
    for other in (b"", b"something else entirely"):
        path.write_bytes(other)
        with pytest.raises(BadBytes, match="not a page file; use another path or delete it"):
            opened(path)
    for fields, message in (((2, 8, PAGE_BYTES), "format 2"), ((1, 8, 512), "pages of 512 bytes")):
        header = struct.pack("<8sHHIQ", b"DEALPAGE", *fields, 3066)
        path.write_bytes(header + struct.pack("<I", zlib.crc32(header)) + whole[28:])
        with pytest.raises(BadBytes, match=f"{message}.*delete it and train again"):
            opened(path)


def test_a_file_is_open_once_at_a_time(tmp_path: Path) -> None:
    array = opened(tmp_path / "a")
    with pytest.raises(BadInput, match="is in use by another process"):
        opened(tmp_path / "a")
    array.close()
    opened(tmp_path / "a").close()


def test_a_folder_is_no_file_of_pages(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(BadInput, match="cannot be opened"):
        opened(tmp_path / "a")


def test_what_was_cleared_is_nowhere_on_disk_after_a_flush(tmp_path: Path) -> None:
    secret = 0x5EC4E7_1234_ABCD
    array = opened(tmp_path / "a")
    array.put(np.arange(SIZE), np.full(SIZE, secret))
    array.flush()
    mark = secret.to_bytes(8, "little")
    assert mark in (tmp_path / "a").read_bytes()
    array.put(np.arange(SIZE), np.zeros(SIZE, dtype=np.int64))
    array.flush()
    for path in tmp_path.iterdir():
        assert mark not in path.read_bytes()
    array.close()
