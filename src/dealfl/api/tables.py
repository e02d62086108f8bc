"""Tables for people: a pandas data frame where pandas is installed, else a list of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dealfl.pages import escaped

__all__ = ["Records", "as_table", "html_table"]


class Records(list[dict[str, Any]]):
    """A table as a list of records; a notebook shows it as a table.

    Parameters
    ----------
    iterable
        The records: dictionaries with the same keys.

    Examples
    --------
    >>> Records([{"round": 1, "quality": 0.5}])[0]["quality"]
    0.5
    """

    def _repr_html_(self) -> str:
        head = list(self[0]) if self else []
        return html_table(head, [[_shown(one[name]) for name in head] for one in self])


def as_table(records: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - pandas is optional
    """Return a `pandas.DataFrame` if pandas is installed, else `Records`."""
    if find_spec("pandas") is None:
        return Records(dict(one) for one in records)
    return import_module("pandas").DataFrame(list(records))


def html_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a plain HTML table; every text is escaped."""
    names = "".join(f"<th>{escaped(name)}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    top = f"<thead><tr>{names}</tr></thead>" if head else ""
    return f"<table>{top}<tbody>{body}</tbody></table>"


def _shown(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
