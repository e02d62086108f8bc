"""After a crash at any moment each page is the old one or the new one, and no copy is left."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dealfl.errors import BadBytes
from dealfl.memory.page_file import PAGE_BYTES, PageJournal
from tests.memory.arrays import WIDE_PAGE, cells, journal_is_empty, opened

PAGES = 3
SIZE = PAGES * WIDE_PAGE
Write = tuple[str, int, bytes]


def _filled(path: Path, value: int) -> None:
    array = opened(path, PAGES, PAGES)
    array.put(np.arange(SIZE), np.full(SIZE, value))
    array.close()


def _writes_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Write]:
    """Return every write to a file that replacing 1 by 2 in all pages takes."""
    writes: list[Write] = []
    real = os.pwrite

    def noted(file: int, data: Any, offset: int) -> int:
        name = Path(f"/proc/self/fd/{file}").readlink().name
        writes.append((name, offset, bytes(data)))
        return real(file, data, offset)

    array = opened(path, PAGES, PAGES)
    with monkeypatch.context() as noting:
        noting.setattr("dealfl.memory.page_file.os.pwrite", noted)
        array.put(np.arange(SIZE), np.full(SIZE, 2))
        array.flush()
    array.abandon()
    return writes


def _page_values(path: Path) -> list[set[int]]:
    array = opened(path, PAGES)
    assert journal_is_empty(path), "a copy of a page is left behind"
    values = array.at(np.arange(SIZE)).reshape(PAGES, -1)
    array.abandon()
    return [set(page.tolist()) for page in values]


def _cuts(length: int) -> list[int]:
    """Every byte boundary near the ends and near those of pages; between them every 211th."""
    near = [edge + step for edge in range(0, length + 1, 4096) for step in range(-8, 9)]
    return sorted({cut for cut in (*near, *range(0, length, 211), length) if 0 <= cut <= length})


def test_a_write_torn_at_any_byte_leaves_old_or_new_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    _filled(path, 1)
    names = ("a", "a.journal")
    before = {name: (tmp_path / name).read_bytes() for name in names}
    writes = _writes_of(path, monkeypatch)
    assert [name for name, *_ in writes] == ["a.journal", "a", "a", "a", "a.journal"]
    seen = set()
    for number, (name, offset, data) in enumerate(writes):
        for cut in _cuts(len(data)):
            files = {n: bytearray(content) for n, content in before.items()}
            for done, at, whole in writes[:number]:
                files[done][at : at + len(whole)] = whole
            files[name][offset : offset + cut] = data[:cut]
            for n, content in files.items():
                (tmp_path / n).write_bytes(content)
            pages = _page_values(path)
            assert all(page in ({1}, {2}) for page in pages), f"write {number} cut at {cut}"
            seen.add(tuple(page.pop() for page in pages))
    assert seen == {(1, 1, 1), (2, 2, 2)}  # a batch comes whole or not at all


CHILD = """
import os, signal, sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[3])
from tests.memory.arrays import opened, WIDE_PAGE

left, real = int(sys.argv[2]), os.pwrite

def dying(file, data, offset):
    global left
    if len(data) > left:
        real(file, bytes(data)[:left], offset)
        os.kill(os.getpid(), signal.SIGKILL)
    left -= len(data)
    return real(file, data, offset)

array = opened(Path(sys.argv[1]), 3, 1)
os.pwrite = dying
size = 3 * WIDE_PAGE
for value in range(2, 50):
    array.put(np.arange(size), np.full(size, value))
"""


@pytest.mark.parametrize("bytes_before_death", [10, 5_000, 8_200, 61_000, 99_999, 150_003])
def test_a_killed_process_leaves_whole_pages(tmp_path: Path, bytes_before_death: int) -> None:
    path = tmp_path / "a"
    _filled(path, 1)
    root = str(Path(__file__).parents[2])
    died = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(bytes_before_death), root], check=False
    )
    assert died.returncode == -9
    pages = _page_values(path)
    assert all(len(page) == 1 for page in pages), pages
    values = [page.pop() for page in pages]
    assert max(values) - min(values) <= 1


def test_a_disk_that_failed_in_the_middle_is_made_whole_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    _filled(path, 1)
    array = opened(path, PAGES, PAGES)
    real, calls = os.pwrite, list[str]()

    def failing(file: int, data: Any, offset: int) -> int:
        calls.append(Path(f"/proc/self/fd/{file}").readlink().name)
        if len(calls) == 3:  # the second page in place
            real(file, bytes(data)[:100], offset)
            raise OSError(5, "Input/output error")
        return real(file, data, offset)

    with monkeypatch.context() as broken:
        broken.setattr("dealfl.memory.page_file.os.pwrite", failing)
        array.put(np.arange(SIZE), np.full(SIZE, 2))
        with pytest.raises(ValueError, match="Input/output error"):
            array.flush()
        array.put(cells(0), cells(3))
        array.flush()
        assert calls[3:6] == ["a"] * 3  # before the journal, which holds the only whole copy
    array.abandon()
    assert _page_values(path) == [{2, 3}, {2}, {2}]


def test_a_journal_of_another_file_is_refused(tmp_path: Path) -> None:
    _filled(tmp_path / "a", 1)
    journal = PageJournal(tmp_path / "a.journal", os.fdatasync)
    journal.begin({PAGES: bytes(PAGE_BYTES)})
    journal.close()
    with pytest.raises(BadBytes, match=r"a\.journal does not belong to a; delete both files"):
        opened(tmp_path / "a", PAGES)


def test_a_journal_outlives_no_file(tmp_path: Path) -> None:
    _filled(tmp_path / "a", 1)
    journal = PageJournal(tmp_path / "a.journal", os.fdatasync)
    journal.begin({0: b"\1" * PAGE_BYTES})
    journal.close()
    (tmp_path / "a").unlink()
    assert _page_values(tmp_path / "a") == [{0}] * PAGES
