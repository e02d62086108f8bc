"""The keys that every [source] of text has, and the checks that need the file itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from dealfl.errors import BadInput
from dealfl.jobs.lists import character, yes_no
from dealfl.jobs.settings import nearest, one_of, text, whole
from dealfl.jobs.sources.tables import Layout, names_of
from dealfl.settings import Document

__all__ = ["DELIMITER", "ENCODING", "FILE", "HEADER", "SKIP_LINES", "require_columns"]

FILE = (
    text(),
    dataclasses.MISSING,
    "the data, beside the job file or by its full path; .gz, .xz, .bz2 and .zip are unpacked",
)
DELIMITER = (character(), ",", "what stands between two cells")
HEADER = (yes_no(), True, "the first row names the columns; else they are c1, c2, …")
SKIP_LINES = (whole(0), 0, "so many lines at the start are no part of the table")
ENCODING = (
    one_of(("utf-8", "utf-16", "windows-1252")),
    "utf-8",
    "how the text of the file is encoded",
)


def require_columns(
    document: Document, path: Path, layout: Layout, wanted: Mapping[str, str]
) -> None:
    """Refuse keys that name columns which the file lacks."""
    try:
        names = names_of(path, layout)
    except BadInput as error:
        raise document.error("source.file", str(error)) from error
    for key, name in wanted.items():
        if name not in names:
            raise document.error(key, f"no column {name!r} in {path.name}; {nearest(name, names)}")
