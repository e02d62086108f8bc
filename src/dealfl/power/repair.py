"""What must be put back if we are killed, in a file that only its living holder has locked."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

__all__ = ["RepairFile", "RepairFileHeld"]


class RepairFileHeld(Exception):
    """Another process holds the clocks."""


class RepairFile:
    """Names of policies and their limits in kHz. The kernel drops the lock of a killed process.

    It is emptied rather than deleted: a process that waited to delete could delete another's.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o600), "r+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise RepairFileHeld(f"another process holds the clocks (it locked {path})") from None

    def leftover(self) -> dict[str, int]:
        """Return what an earlier holder left; what makes no sense is nothing."""
        self._file.seek(0)
        try:
            content = json.load(self._file)
        except ValueError:
            return {}
        if not isinstance(content, dict):
            return {}
        return {name: khz for name, khz in content.items() if type(khz) is int}

    def keep(self, before_khz: Mapping[str, int]) -> None:
        """Write down what must be put back."""
        self._file.seek(0)
        self._file.truncate()
        json.dump(dict(before_khz), self._file)
        self._file.flush()

    def done(self) -> None:
        """Note that nothing has to be put back any more."""
        self._file.truncate(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._file.close()
