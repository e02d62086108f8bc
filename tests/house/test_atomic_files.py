"""Files are replaced as a whole, with the permissions a plain file would have."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dealfl.errors import BadInput, WriteFailed
from dealfl.storage.atomic_files import replace_file


def test_text_bytes_and_parts_are_written_alike(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in ("aé", "aé".encode(), [b"a", "é".encode()]):
        assert replace_file(path, content) == path
        assert path.read_bytes() == "aé".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_others_may_read_what_they_might_read_of_a_plain_file_if_wanted(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        replace_file(tmp_path / "file", b"", mode=0o666)
        (tmp_path / "plain").write_bytes(b"")
    finally:
        os.umask(mask)
    modes = {path.name: path.stat().st_mode for path in tmp_path.iterdir()}
    assert modes["file"] == modes["plain"]


def test_content_that_breaks_off_leaves_the_old_file(tmp_path: Path) -> None:
    path = replace_file(tmp_path / "file", b"old")

    def parts() -> Iterator[bytes]:
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_file(path, parts())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none/file cannot be written: No such file"):
        replace_file(tmp_path / "none" / "file", b"")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    replace_file(path, "old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(WriteFailed, match=r"page\.html cannot be written: No space left"):
        replace_file(path, "new")
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]
    assert path.read_bytes() == b"old"
