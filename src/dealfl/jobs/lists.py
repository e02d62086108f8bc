"""More kinds of values: yes or no, lists, labels, and numbers of any sign."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from dealfl.jobs.settings import Kind, number

__all__ = ["Label", "any_number", "anything", "character", "labels", "numbers", "table", "yes_no"]

Label = str | int | float


def yes_no() -> Kind:
    """Return the kind of true and false."""
    return Kind("true or false", lambda value: value if isinstance(value, bool) else None)


def any_number() -> Kind:
    """Return the kind of finite numbers."""
    return Kind("a number", number(-math.inf).read)


def numbers() -> Kind:
    """Return the kind of a number for all columns, or a list with one for each.

    >>> numbers().read([1, Decimal("2.5")]), numbers().read(3), numbers().read([])
    ((1.0, 2.5), 3.0, None)
    """
    one = any_number()

    def read(value: object) -> float | tuple[float, ...] | None:
        if not isinstance(value, list | tuple):
            plain: float | None = one.read(value)
            return plain
        each = tuple(one.read(part) for part in value)
        return None if not each or None in each else each

    return Kind("a number, or a list with one for each column", read)


def labels(least: int) -> Kind:
    """Return the kind of lists of different texts, or of different numbers.

    >>> labels(2).read(["no", "yes"]), labels(2).read([1, 1]), labels(2).read([1, "one"])
    (('no', 'yes'), None, None)
    """

    def read(value: object) -> tuple[Label, ...] | None:
        if not isinstance(value, list | tuple):
            return None
        each = tuple(_label(part) for part in value)
        texts = sum(isinstance(part, str) for part in each)
        proper = None not in each and texts in (0, len(each)) and len(set(each)) == len(each)
        return each if proper and len(each) >= least else None  # type: ignore[return-value]

    return Kind(f"a list of at least {least} texts, or of numbers, no two the same", read)


def _label(value: object) -> Label | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    if isinstance(value, str):
        return value.strip()
    plain = float(value)
    if not math.isfinite(plain):
        return None
    return int(plain) if plain == int(plain) else plain


def character() -> Kind:
    """Return the kind of one character, such as a comma or a tab."""
    return Kind(
        r'one character, such as ";" or "\t"',
        lambda value: value if isinstance(value, str) and len(value) == 1 else None,
    )


def table() -> Kind:
    """Return the kind of tables that are read further by whoever asked for them."""
    return Kind(
        "a table of keys and values",
        lambda value: value if isinstance(value, Mapping) and value else None,
    )


def anything() -> Kind:
    """Return the kind of any number or text."""

    def read(value: object) -> Any:  # noqa: ANN401
        return value if isinstance(value, str) else any_number().read(value)

    return Kind("a number or a text", read)
