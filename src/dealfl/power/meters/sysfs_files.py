"""Reading of single values from files in /sys."""

from pathlib import Path

from dealfl.errors import DealError

__all__ = ["read_integer", "read_text_file", "try_integer", "try_text"]


def read_text_file(path: Path) -> str:
    """Return the text of a file, or raise DealError with the reason."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except PermissionError:
        raise DealError(f"{path} is not readable by this user; run as root") from None
    except FileNotFoundError:
        raise DealError(f"{path} does not exist") from None
    except OSError as error:  # a driver can return any error, such as ENODATA
        raise DealError(f"{path} cannot be read: {error.strerror}") from None


def read_integer(path: Path) -> int:
    """Return the number in a file, or raise DealError with the reason."""
    text = read_text_file(path)
    try:
        return int(text)
    except ValueError:
        raise DealError(f"{path} contains {text[:40]!r}, not a whole number") from None


def try_text(path: Path) -> str | None:
    """Return the text of a file; None if it cannot be read."""
    try:
        return read_text_file(path)
    except DealError:
        return None


def try_integer(path: Path) -> int | None:
    """Return the number in a file; None if it cannot be read."""
    try:
        return read_integer(path)
    except DealError:
        return None
