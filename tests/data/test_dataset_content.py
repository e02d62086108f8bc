import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dealfl.data.readers import Content, read_lines, unpacked_name
from dealfl.errors import BadBytes, BadInput

Pack = Callable[[dict[str, bytes]], bytes]
TEXT = b"one line\nanother line\n" * 50


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


PACKED = {
    "a.gz": gzip.compress(TEXT),
    "a.xz": lzma.compress(TEXT),
    "a.bz2": bz2.compress(TEXT),
    "a.zip": zipped({"a": TEXT}),
    "a.tgz": tarred({"a": TEXT}),
    "a.tar.gz": tarred({"a": TEXT}),
}


@pytest.mark.parametrize("name", PACKED)
def test_every_packing_gives_back_what_was_packed(name: str) -> None:
    assert Content(name, PACKED[name]).unpack() == Content(name, TEXT)


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("kept", [0, 4, 30, -7])
def test_a_truncated_archive_is_refused_by_name(name: str, kept: int) -> None:
    with pytest.raises(BadBytes, match=rf"^{name}: truncated or damaged .*; get the file again$"):
        Content(name, PACKED[name][:kept]).unpack()


@pytest.mark.parametrize("name", PACKED)
def test_other_bytes_under_a_packed_name_are_refused(name: str) -> None:
    with pytest.raises(BadBytes, match="damaged"):
        Content(name, b"<html>not found</html>" * 40).unpack()


def test_a_plain_file_is_left_as_it_is() -> None:
    assert Content("u.data", TEXT).unpack().data == TEXT


@pytest.mark.parametrize(("name", "pack"), [("a.zip", zipped), ("a.tgz", tarred)])
def test_a_member_is_picked_from_an_archive_of_several(name: str, pack: Pack) -> None:
    archive = Content(name, pack({"in/README": b"no", "in/u.data": TEXT}))
    assert archive.unpack("in/u.data").data == TEXT


@pytest.mark.parametrize(("name", "pack"), [("a.zip", zipped), ("a.tgz", tarred)])
def test_a_member_that_is_not_there_is_named_with_what_is(name: str, pack: Pack) -> None:
    archive = Content(name, pack({"in/README": b"no", "in/u.item": TEXT}))
    with pytest.raises(BadInput, match=r"expected 'in/u.data' .* holds in/README, in/u.item"):
        archive.unpack("in/u.data")
    with pytest.raises(BadInput, match="expected one file in the archive"):
        archive.unpack()


def test_an_empty_archive_is_refused() -> None:
    with pytest.raises(BadInput, match="but it holds nothing"):
        Content("a.zip", zipped({})).unpack()


def test_a_link_in_an_archive_is_not_followed() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        link = tarfile.TarInfo("in/u.data")
        link.type, link.linkname = tarfile.SYMTYPE, "../outside"
        archive.addfile(link)
    with pytest.raises(BadInput, match="but it holds nothing"):
        Content("a.tgz", buffer.getvalue()).unpack("in/u.data")


def test_lines_are_numbered_as_an_editor_numbers_them() -> None:
    content = Content("a.csv", b"\xef\xbb\xbf1,2\r\n\n3,4\r\n \n5,6")
    assert list(read_lines(content)) == [(1, "1,2"), (3, "3,4"), (5, "5,6")]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"cannot read {tmp_path}"):
        Content.read(tmp_path)


@pytest.mark.parametrize(
    ("packed", "plain"), [("x/u.data.gz", "x/u.data"), ("x/a.txt.zip", "x/a.txt"), ("u", "u")]
)
def test_the_unpacked_name_loses_the_packing_suffix_only(packed: str, plain: str) -> None:
    assert unpacked_name(packed) == plain
