"""Files that are replaced as a whole: a reader, or a crash, finds the old one or the new one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dealfl.errors import BadInput

__all__ = ["replace_file", "synchronize"]


def replace_file(path: str | Path, content: bytes | str | Iterable[bytes]) -> Path:
    """Write a file as a whole, durably; BadInput if that is impossible."""
    target = Path(path)
    try:
        handle, draft = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    except OSError as error:
        raise _refused(target, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            file.writelines(_parts(content))
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(target)
        synchronize(target.parent)
    except OSError as error:
        raise _refused(target, error) from error
    finally:
        Path(draft).unlink(missing_ok=True)
    return target


def synchronize(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _parts(content: bytes | str | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(content, str):
        return [content.encode()]
    return [content] if isinstance(content, bytes) else content


def _refused(path: Path, error: OSError) -> BadInput:
    return BadInput(f"{path} can not be written: {error.strerror}")


def _umask() -> int:
    """Return what a new file of this process is not permitted; asking for it means setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
