"""The bytes of a data file under the name that error messages use, and how to unpack them."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dealfl.errors import BadBytes, BadInput

__all__ = ["PACKINGS", "Content", "unpacked_name"]

PACKINGS = (".gz", ".xz", ".bz2", ".zip")  # of one file; archives of many need a member's name


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes, with the name of the file they came from.

    Examples
    --------
    >>> packed = Content("ratings.gz", gzip.compress(b"1 2"))
    >>> packed.unpack()
    Content(name='ratings.gz', data=b'1 2')
    """

    name: str
    data: bytes

    @classmethod
    def read(cls, path: Path) -> "Content":
        """Return the content of the file at `path`, still packed."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BadInput(f"can not read {path}: {error.strerror}; make it readable") from error
        return cls(str(path), data)

    def unpack(self, member: str | None = None) -> "Content":
        """Return what is inside, by the suffix of the name; `member` picks one file of several."""
        suffix = PurePosixPath(self.name).suffix
        if suffix not in _UNPACK:
            return self
        try:
            if not self.data:
                raise EOFError("it is empty")  # which gzip takes for a packed nothing
            return Content(self.name, _UNPACK[suffix](self, member))
        except BadInput:  # a ValueError as well, but one that says what is wrong
            raise
        except _DAMAGED as error:
            reason = str(error).partition("\n")[0]
            raise BadBytes(
                f"{self.name}: truncated or damaged ({reason}); get the file again"
            ) from error

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number, from 1, and the text of every line that is not blank."""
        for number, line in enumerate(io.BytesIO(self.data), start=1):
            text = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").rstrip("\r\n")
            if text.strip():
                yield number, text


def unpacked_name(name: str) -> str:
    """Return the name a file has once it is unpacked.

    >>> unpacked_name("covtype/covtype.data.xz")
    'covtype/covtype.data'
    """
    for packing in PACKINGS:
        name = name.removesuffix(packing)
    return name


def _from_gzip(content: Content, member: str | None) -> bytes:
    data = gzip.decompress(content.data)  # all of it: tarfile alone would not see a cut-off end
    if not content.name.endswith((".tar.gz", ".tgz")):
        return data
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        names = [info.name for info in archive.getmembers() if info.isfile()]
        stream = archive.extractfile(_pick(content.name, names, member))
        assert stream is not None  # _pick names regular files only
        return stream.read()


def _from_zip(content: Content, member: str | None) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content.data)) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        return archive.read(_pick(content.name, names, member))


def _pick(archive: str, names: list[str], member: str | None) -> str:
    if member is not None and member in names:
        return member
    if len(names) == 1:
        return names[0]  # whatever it is called: checksums tell whether it is the right one
    wanted = "one file alone" if member is None else repr(member)
    held = ", ".join(sorted(names)[:8]) or "nothing"
    raise BadInput(f"{archive}: looked for {wanted} in the archive, which holds {held}")


_UNPACK: dict[str, Callable[[Content, str | None], bytes]] = {
    ".gz": _from_gzip,
    ".tgz": _from_gzip,
    ".xz": lambda content, _: lzma.decompress(content.data),
    ".bz2": lambda content, _: bz2.decompress(content.data),
    ".zip": _from_zip,
}
_DAMAGED = (
    EOFError,
    OSError,
    RuntimeError,  # a zip that is encrypted or packed in an unknown way
    ValueError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
)
