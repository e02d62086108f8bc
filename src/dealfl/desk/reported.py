"""Sections of the report of a finished run, made once for each record."""

from __future__ import annotations

from functools import lru_cache

from dealfl.desk.view import View
from dealfl.report import report_sections
from dealfl.runs import RunRecord


def reported(view: View, name: str) -> str:
    """Return a section of the report; empty if the run has not reported yet."""
    return "" if view.record is None else _sections(_Same(view.record)).get(name, "")


class _Same:
    """A record that is compared by identity: a source keeps it until its file changes."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.record is self.record

    def __hash__(self) -> int:
        return id(self.record)


@lru_cache(maxsize=2)
def _sections(same: _Same) -> dict[str, str]:
    sections = report_sections(same.record)
    head = sections["summary"].replace("<h1>", "<h2>").replace("</h1>", "</h2>")
    return sections | {"summary": head}
