"""Reading the small text files of /sys; what can not be read says why."""

from pathlib import Path

from dealfl.errors import DealError

__all__ = ["read_integer", "read_text", "readable_integer", "readable_text"]


def read_text(path: Path) -> str:
    """Return the words of a file, or raise the reason why not."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except PermissionError:
        raise DealError(f"{path} may not be read by this user; root may") from None
    except FileNotFoundError:
        raise DealError(f"{path} does not exist") from None
    except OSError as error:  # a driver may answer a read with any error, such as ENODATA
        raise DealError(f"{path} can not be read: {error.strerror}") from None


def read_integer(path: Path) -> int:
    """Return the number in a file, or raise the reason why not."""
    text = read_text(path)
    try:
        return int(text)
    except ValueError:
        raise DealError(f"{path} holds {text[:40]!r}, not a whole number") from None


def readable_text(path: Path) -> str | None:
    """Return the words of a file; None where they can not be read."""
    try:
        return read_text(path)
    except DealError:
        return None


def readable_integer(path: Path) -> int | None:
    """Return the number in a file; None where it can not be read."""
    try:
        return read_integer(path)
    except DealError:
        return None
