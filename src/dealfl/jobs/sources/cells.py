"""What a cell of text says: a number, a moment, a word, or nothing."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

__all__ = ["MISSING", "day_of", "is_missing", "moment_of", "number_of"]

MISSING = ("", "?", "na", "n/a", "nan", "null", "none")
_LIKE_A_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}")
_DAY_S = 86_400.0


def is_missing(cell: str) -> bool:
    """Return whether a cell says that there is no value.

    >>> [is_missing(cell) for cell in ("NA", " ", "0", "nan")]
    [True, True, False, True]
    """
    return cell.strip().lower() in MISSING


def number_of(cell: str) -> float:
    """Return the number in a cell; nan if there is none.

    >>> number_of(" 2.5 "), number_of("1_000"), number_of("ten")
    (2.5, nan, nan)
    """
    try:
        return float(cell) if "_" not in cell else math.nan
    except ValueError:
        return math.nan


def moment_of(cell: str) -> float:
    """Return the seconds since 1970 of a date, or of a date and time, in ISO 8601; else nan.

    >>> moment_of("1970-01-02"), moment_of("1970-01-01 00:01:00Z"), moment_of("12")
    (86400.0, 60.0, nan)
    """
    text = cell.strip()
    if not _LIKE_A_DATE.match(text):
        return math.nan
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def day_of(cell: str) -> float:
    """Return the days since 1970 of a date; nan if it is none.

    >>> day_of("1970-01-02T12:00")
    1.5
    """
    return moment_of(cell) / _DAY_S
