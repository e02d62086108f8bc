"""The keys that every [source] of text has, and the checks that need the file itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from dealfl.errors import BadInput
from dealfl.jobs.sources.tables import Layout, names_of
from dealfl.settings import Document, Text, Whole, nearest

__all__ = [
    "DecimalComma", "Delimiter", "Encoding", "File", "Header", "SkipLines", "Time",
    "require_columns",
]  # fmt: skip

File = Annotated[
    Text,
    Meta(
        description="path of the data file, relative to the job file or absolute; .gz, .xz, .bz2 "
        "and .zip are unpacked"
    ),
]
Time = Annotated[Text, Meta(description="column of numbers or ISO dates that orders arrival")]
Delimiter = Annotated[
    str, Meta(min_length=1, max_length=1, description="character between two cells")
]
DecimalComma = Annotated[bool, Meta(description="numbers are written 1.234,5")]
Header = Annotated[
    bool, Meta(description="the first row names the columns; otherwise they are c1, c2, …")
]
SkipLines = Annotated[
    Whole, Meta(description="lines at the start of the file that are not part of the table")
]
Encoding = Annotated[
    Literal["utf-8", "utf-16", "windows-1252"], Meta(description="text encoding of the file")
]


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
