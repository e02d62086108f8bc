"""Pages leave memory; a full disk loses nothing; damaged files are refused."""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from dealfl.errors import BadBytes, BadInput
from dealfl.exact.paging import PagedArray
from dealfl.storage import BudgetedThetaLru, Frames, Lru, Policy
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


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk, where the other temporary folders may be in memory."""
    with TemporaryDirectory(dir=Path(__file__).parent, prefix=".disk-") as folder:
        if not on_a_disk(Path(folder)):
            pytest.skip(f"NOT MEASURED: {folder} is not on a disk, so pages never leave memory")
        yield Path(folder)


def _major_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def test_counted_swaps_are_the_real_major_faults_from_cold_pages(disk: Path) -> None:
    pages, per_page = 300, WIDE_PAGE
    starts = np.arange(0, pages * per_page, per_page)
    frames = Frames(Lru(30))
    array = opened(disk / "a", pages, shared=frames, sync=os.fdatasync)
    array.put(starts, starts + 1)
    array.flush()
    with (disk / "a").open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    order = np.random.default_rng(0).permutation(np.tile(starts, 2))
    faults, ins = _major_faults(), frames.swaps.ins
    read = [array.at(order[place : place + 1])[0] for place in range(len(order))]
    faults, ins = _major_faults() - faults, frames.swaps.ins - ins
    assert np.array_equal(read, order + 1)
    assert 500 < ins <= 600
    assert abs(faults - ins) <= 0.02 * ins
    array.close()


def test_pages_that_left_are_not_in_memory(disk: Path) -> None:
    array = opened(disk / "a", pages=1000, frames=5, sync=os.fdatasync)
    everything = np.arange(0, len(array), WIDE_PAGE)
    array.put(everything, everything)

    def mapped_kb() -> int:
        lines = Path("/proc/self/smaps").read_text().split(str(disk / "a"))[1].splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))

    assert mapped_kb() <= 5 * PAGE_BYTES / 1024
    array.close()


def _failing(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("dealfl.exact.paging.os.pwrite", fail)


@every_policy
def test_a_full_disk_loses_nothing_and_is_reported(
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
    assert np.array_equal(array.at(everything), everything + 2)
    array.close()


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


def test_a_disk_without_room_for_the_array_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(
        BadInput, match=r"/a cannot be created: No space left .* 24576 bytes on disk"
    ):
        opened(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def _evicted(path: Path, values: dict[int, int]) -> PagedArray:
    """Return an array whose pages with these values are in the file only."""
    array = opened(path, frames=2)
    array.put(cells(*values), cells(*values.values()))
    array.flush()
    array.at(cells(4 * WIDE_PAGE, 5 * WIDE_PAGE))
    return array


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize("offset", [0, 1, 100, 8 * WIDE_PAGE - 1, PAGE_BYTES - 8, PAGE_BYTES - 1])
def test_a_damaged_page_is_known_when_it_is_read(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "a"
    array = _evicted(path, {0: 5, 3 * WIDE_PAGE: 6})
    start = 3 * PAGE_BYTES + offset
    _overwrite(path, start, bytes([path.read_bytes()[start] ^ 1]))
    assert array.at(cells(0)).tolist() == [5]
    for _ in range(2):
        with pytest.raises(BadBytes, match=r"/a: page 3 is damaged; delete it and train again"):
            array.at(cells(3 * WIDE_PAGE))
    array.abandon()


def test_a_page_that_was_written_in_part_is_known(tmp_path: Path) -> None:
    path = tmp_path / "a"
    array = _evicted(path, dict.fromkeys(range(WIDE_PAGE), 5))
    _overwrite(path, 0, bytes(1000))
    with pytest.raises(BadBytes, match="page 0 is damaged"):
        array.at(cells(0))
    array.abandon()


def test_a_page_in_the_wrong_place_is_known(tmp_path: Path) -> None:
    path = tmp_path / "a"
    array = _evicted(path, {0: 5})
    _overwrite(path, PAGE_BYTES, path.read_bytes()[:PAGE_BYTES])
    with pytest.raises(BadBytes, match="page 1 is damaged"):
        array.at(cells(WIDE_PAGE))
    array.abandon()


def test_a_file_that_was_cut_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    array = _evicted(path, {0: 5})
    os.truncate(path, PAGE_BYTES)
    for read in (lambda: array.at(cells(0)), lambda: array.put(cells(0), cells(1)), array.flush):
        with pytest.raises(BadBytes, match=r"4096 bytes instead of 24576; delete it"):
            read()
    array.abandon()


def test_an_array_takes_no_file_that_exists(tmp_path: Path) -> None:
    opened(tmp_path / "a").close()
    with pytest.raises(BadInput, match="cannot be created: File exists"):
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
