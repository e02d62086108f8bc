"""The section [selection]: the settings of the selector that the job names."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from dealfl.errors import BadInput
from dealfl.jobs.job import Job
from dealfl.jobs.settings import nearest
from dealfl.server.selection import selector, settings_of
from dealfl.settings import Document

__all__ = ["selection_of"]


def selection_of(document: Document, job: Job) -> dict[str, Any]:
    """Return the settings of a job's selector, checked; its seed is the job's, if it takes one."""
    table = document.tables.get("selection", {})
    if not isinstance(table, Mapping):
        raise document.error("selection", f"selection is {table!r}; it takes keys and values")
    known = settings_of(job.selector)
    for key in table:
        if key not in known:
            problem = f"no key {key!r} in selection for {job.selector}"
            raise document.error(f"selection.{key}", f"{problem}; {nearest(key, known)}")
    settings = {key: _plain(value) for key, value in table.items()}
    if "seed" in known:
        settings.setdefault("seed", job.seed)
    try:
        selector(job.selector, settings)
    except (BadInput, TypeError) as error:
        named = next((key for key in table if key in str(error)), "")
        raise document.error(f"selection.{named}".rstrip("."), f"selection: {error}") from None
    return settings


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return float(value) if isinstance(value, Decimal) else value
