"""Files replaced as a whole, locks that end with their process, folders of one user.

After a crash, either the old or the new content of a file exists.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from dealfl.errors import BadInput, DealError, WriteFailed

_LOCK_POLL_S = 0.02
_LOCK_WAIT_S = 1.0  # the kernel needs a moment to bury a killed process
_DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def replace_file(
    path: str | Path, content: bytes | str | Iterable[bytes], mode: int = 0o600
) -> Path:
    """Replace the content of a file atomically and durably."""
    target = Path(path)
    try:
        handle, draft = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    except OSError as error:
        raise refused_write(target, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode & ~_umask())
            file.writelines(_parts(content))
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(target)
        synchronize(target.parent)
    except OSError as error:
        raise refused_write(target, error) from error
    finally:
        Path(draft).unlink(missing_ok=True)
    return target


def lock_file(path: Path, what: str, wait_s: float = _LOCK_WAIT_S) -> Callable[[], None]:
    """Lock a file until the lock is released or the process ends, even by kill −9."""
    until_s = time.monotonic() + wait_s
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise refused_write(path, error) from error
        if _lock(descriptor, path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            return partial(_unlock, descriptor, path)
        holder = os.pread(descriptor, 20, 0).decode(errors="replace")
        os.close(descriptor)
        if time.monotonic() >= until_s:
            raise BadInput(f"{what} is in use by process {holder}; stop it and try again")
        time.sleep(_LOCK_POLL_S)


def _lock(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())  # not one just released
    except (BlockingIOError, FileNotFoundError):
        return False


def _unlock(descriptor: int, path: Path) -> None:
    path.unlink(missing_ok=True)
    os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents; only their owner can use them."""
    for folder in (*reversed(path.parents), path):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    path.mkdir(exist_ok=True)  # raises an error if it is a file


def make_private(path: Path) -> None:
    """Create an empty file, or change an existing one, so that only its owner can use it."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(FileNotFoundError, PermissionError):  # the owner may be another user
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)


def synchronize(path: Path) -> None:
    """Wait until a file or folder is on disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _parts(content: bytes | str | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(content, str):
        return [content.encode()]
    return [content] if isinstance(content, bytes) else content


def is_disk_failure(error: OSError) -> bool:
    """Return whether a write failed because the disk is full or fails."""
    return error.errno in _DISK_FAILURES


def refused_write(path: Path, error: OSError) -> DealError:
    """Return the error to raise for a file that cannot be written."""
    problem = f"{path} cannot be written: {error.strerror}"
    if is_disk_failure(error):
        return WriteFailed(f"{problem}; free disk space, then try again")
    return BadInput(problem)


def _umask() -> int:
    """Return the process's umask. Reading it requires setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
