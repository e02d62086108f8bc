"""A saved learner is read back whole or refused, and a failed save leaves the old one."""

import errno
import hashlib
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from dealfl.errors import BadBytes, BadInput, Incompatible, UnknownName, WriteFailed
from dealfl.learners import NaiveBayes, SavedLearner, Tikhonov, load

SETTINGS: dict[str, object] = {"n_features": 3, "bound": [1.0, 0.5], "name": "µ", "none": None}
SECTIONS = {"statistics": bytes(range(40)), "empty": b"", "more": b"\0DEALFILE"}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "learner.deal"
    SavedLearner("counter", SETTINGS, SECTIONS).write(path)
    return path


def forged(path: Path, header: str | bytes, body: bytes = b"", length: int | None = None) -> Path:
    """Write any header and body, with a checksum that fits."""
    text = header.encode() if isinstance(header, str) else header
    data = struct.pack("<8sHI", b"DEALFILE", 1, len(text) if length is None else length)
    data += text + body
    path.write_bytes(data + hashlib.sha256(data).digest())
    return path


def test_what_is_written_is_read(saved: Path) -> None:
    found = SavedLearner.read(saved)
    assert found.learner == "counter"
    assert found.settings == SETTINGS
    assert found.sections == SECTIONS
    assert list(found.sections) == list(SECTIONS)


def test_a_learner_without_settings_or_sections_is_read(tmp_path: Path) -> None:
    SavedLearner("", {}, {}).write(tmp_path / "a")
    assert SavedLearner.read(tmp_path / "a") == SavedLearner("", {}, {})


def test_the_format_never_changes(tmp_path: Path) -> None:
    SavedLearner("counter", {"b": 1.5}, {"x": b"\1\2", "y": b"\3"}).write(tmp_path / "a")
    header = b'{"learner":"counter","settings":{"b":1.5},"sections":{"x":2,"y":1}}'
    data = b"DEALFILE\1\0" + len(header).to_bytes(4, "little") + header + b"\1\2\3"
    assert (tmp_path / "a").read_bytes() == data + hashlib.sha256(data).digest()


def test_saving_again_replaces_the_file_and_leaves_nothing_else(saved: Path) -> None:
    SavedLearner("other", {}, {"x": b"new"}).write(saved)
    assert SavedLearner.read(saved).sections == {"x": b"new"}
    assert list(saved.parent.iterdir()) == [saved]


def test_every_truncation_is_refused(saved: Path) -> None:
    data = saved.read_bytes()
    for length in range(len(data)):
        saved.write_bytes(data[:length])
        with pytest.raises(BadBytes, match=str(saved)):
            SavedLearner.read(saved)


def test_every_flipped_bit_is_refused(saved: Path) -> None:
    data = saved.read_bytes()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        saved.write_bytes(flipped)
        with pytest.raises(BadBytes, match=str(saved)):
            SavedLearner.read(saved)


@pytest.mark.parametrize("extra", [b"\0", bytes(32), b"DEALFILE"])
def test_trailing_bytes_are_refused(saved: Path, extra: bytes) -> None:
    saved.write_bytes(saved.read_bytes() + extra)
    with pytest.raises(BadBytes, match="damaged: its checksum does not match"):
        SavedLearner.read(saved)


@pytest.mark.parametrize(
    "data", [b"", b"DEALFILE", bytes(100), b"DEALSTAT" + bytes(100), b"\x80\x04."], ids=len
)
def test_what_is_no_saved_learner_is_refused(saved: Path, data: bytes) -> None:
    saved.write_bytes(data)
    with pytest.raises(BadBytes, match=f"{saved}: not a saved learner"):
        SavedLearner.read(saved)


def test_a_newer_version_is_named(saved: Path) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[:8] + b"\x02\x00" + data[10:])
    with pytest.raises(
        BadBytes, match="the saved learner has format 2; this dealfl reads format 1"
    ):
        SavedLearner.read(saved)


@pytest.mark.parametrize(
    ("header", "body", "message"),
    [
        ("", b"", "the header cannot be read"),
        ("[]", b"", "the header cannot be read"),
        ('{"learner":"a","settings":{}}', b"", "the header cannot be read"),
        ('{"learner":"a","settings":{},"sections":{},"x":1}', b"", "the header cannot be read"),
        ('{"learner":"a","settings":{},"sections":{"x":"1"}}', b"1", "the header cannot be read"),
        ('{"learner":1,"settings":{},"sections":{}}', b"", "the header cannot be read"),
        ('{"learner":"a","settings":{},"sections":{}}', b"1", "sizes of the sections"),
        ('{"learner":"a","settings":{},"sections":{"x":2}}', b"1", "sizes of the sections"),
        ('{"learner":"a","settings":{},"sections":{"x":1}}', b"12", "sizes of the sections"),
        ('{"learner":"a","settings":{},"sections":{"x":-1}}', b"", "the header cannot be read"),
        ('{"learner":"a","settings":{},"sections":{"x":9e99}}', b"", "the header cannot be read"),
        (
            '{"learner":"a","settings":{},"sections":{"x":9999999999999999999}}',
            b"",
            "sizes of the sections",
        ),
    ],
)
def test_a_forged_checksum_does_not_help(
    tmp_path: Path, header: str, body: bytes, message: str
) -> None:
    with pytest.raises(BadBytes, match=message):
        SavedLearner.read(forged(tmp_path / "a", header, body))


@pytest.mark.parametrize("length", [0, 5, 44, 10**6, 2**32 - 1])
def test_a_wrong_length_of_the_header_is_refused(tmp_path: Path, length: int) -> None:
    header = '{"learner":"a","settings":{},"sections":{}}'
    assert SavedLearner.read(forged(tmp_path / "a", header)).learner == "a"
    with pytest.raises(BadBytes):
        SavedLearner.read(forged(tmp_path / "a", header, length=length))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "a"
    with pytest.raises(BadInput, match=f"{path} cannot be read: No such file or directory"):
        SavedLearner.read(path)
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        Tikhonov.load(str(path))


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"{tmp_path} cannot be read: Is a directory"):
        SavedLearner.read(tmp_path)


def test_a_file_that_may_not_be_read_is_named(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)  # root may read everything
    with pytest.raises(BadInput, match=f"{saved} cannot be read: Permission denied"):
        SavedLearner.read(saved)


def test_a_file_of_another_learner_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    Tikhonov(2, feature_bound=1.0, target_bound=1.0).save(path)
    with pytest.raises(Incompatible, match=f"{path} holds learner tikhonov, not naive_bayes"):
        NaiveBayes.load(path)
    assert isinstance(load(path), Tikhonov)


def test_a_file_of_an_unknown_learner_is_refused(saved: Path) -> None:
    with pytest.raises(UnknownName, match="no learner called 'counter'; known: "):
        load(saved)


class FullDisk:
    """A file that takes a few bytes, then no more."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> "FullDisk":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def fileno(self) -> int:
        return int(self._file.fileno())

    def writelines(self, parts: list[bytes]) -> None:
        self._file.write(b"".join(parts)[:20])
        self._file.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail(*_: object, error: BaseException) -> None:
    raise error


FAILURES: dict[str, tuple[object, str, Any, type[BaseException]]] = {
    "the disk is full": (
        os,
        "fdopen",
        lambda handle, mode, fdopen=os.fdopen: FullDisk(fdopen(handle, mode)),
        WriteFailed,
    ),
    "the disk is full when it is flushed": (
        os,
        "fsync",
        lambda *_: fail(error=OSError(errno.ENOSPC, "no space")),
        WriteFailed,
    ),
    "the file may not be replaced": (
        Path,
        "replace",
        lambda *_: fail(error=PermissionError(errno.EACCES, "denied")),
        BadInput,
    ),
    "the user has had enough": (
        os,
        "fsync",
        lambda *_: fail(error=KeyboardInterrupt()),
        KeyboardInterrupt,
    ),
}


@pytest.mark.parametrize(("owner", "name", "stub", "error"), FAILURES.values(), ids=FAILURES)
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    saved: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    stub: Any,
    error: type[BaseException],
) -> None:
    before = saved.read_bytes()
    new = saved.parent / "new"
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stub)
        for path in (saved, new):
            with pytest.raises(error):
                SavedLearner("counter", {}, {"x": bytes(1000)}).write(path)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
    SavedLearner("counter", {}, {"x": bytes(1000)}).write(saved)
    assert SavedLearner.read(saved).sections == {"x": bytes(1000)}


def test_a_file_is_on_disk_before_it_takes_the_place_of_the_old_one(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, int]] = []
    fsync, replace = os.fsync, Path.replace

    def watched_fsync(handle: int) -> None:
        events.append(("on disk", os.fstat(handle).st_size))
        fsync(handle)

    def watched_replace(path: Path, target: Path) -> Path:
        events.append(("in place", path.stat().st_size))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    SavedLearner("counter", SETTINGS, SECTIONS).write(saved)
    size = saved.stat().st_size
    assert events[:2] == [("on disk", size), ("in place", size)]
    assert [what for what, _ in events[2:]] == ["on disk"], "the folder, which holds the name"


def test_a_learner_is_not_saved_over_a_directory(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(BadInput, match="Is a directory"):
        SavedLearner("counter", {}, {}).write(target)
    assert list(tmp_path.iterdir()) == [target]


def test_settings_that_are_no_json_are_refused_before_a_file_is_touched(saved: Path) -> None:
    before = saved.read_bytes()
    with pytest.raises(TypeError):
        SavedLearner("counter", {"a": object()}, {}).write(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
