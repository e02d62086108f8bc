"""A user's own table: delimited text, one row an example."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from dealfl.datasets import Dataset, Domain, Examples
from dealfl.jobs.sources.columns import Bounded, Cells, Vocabulary, WordColumn, read_column
from dealfl.jobs.sources.files import (
    DecimalComma,
    Delimiter,
    Encoding,
    File,
    Header,
    SkipLines,
    Time,
    require_columns,
)
from dealfl.jobs.sources.owners import OwnerNames
from dealfl.jobs.sources.quarantine import Quarantine
from dealfl.jobs.sources.sifting import Reader, Sieve, ranked, read_moments, read_texts
from dealfl.jobs.sources.tables import Layout
from dealfl.jobs.sources.targets import Classes, TargetBound, require_one_target, supervised
from dealfl.jobs.subject import Reading
from dealfl.settings import Document, Text

__all__ = ["CsvSource"]

Columns = tuple[tuple[str, Bounded | WordColumn], ...]


class CsvSource(Struct, frozen=True, kw_only=True, tag_field="format", tag="csv"):
    """A table: each row is an example, some columns are its features, one is its target."""

    file: File
    target: Annotated[Text, Meta(description="column to predict")]
    columns: Annotated[
        Mapping[str, Any],
        Meta(min_length=1, description="columns that are features, each with its limits or words"),
    ]
    classes: Classes = ()
    target_bound: TargetBound = 0.0
    owner: Annotated[
        Text, Meta(description="column that names the owner; an owner's rows can stay together")
    ] = ""
    time: Time = ""
    delimiter: Delimiter = ","
    decimal_comma: DecimalComma = False
    header: Header = True
    skip_lines: SkipLines = 0
    encoding: Encoding = "utf-8"
    features: Columns = ()

    def prepared(self, document: Document, path: Path) -> CsvSource:
        """Return it with its columns checked against the job file and the data file."""
        require_one_target(document, self.classes, self.target_bound)
        wanted = {
            f"source.{key}": getattr(self, key)
            for key in ("target", "owner", "time")
            if getattr(self, key)
        }
        for name in self.columns:
            wanted[f"source.columns.{name}"] = name
        require_columns(document, path, self._layout, wanted)
        for name in self.columns:
            if name in (self.target, self.owner):
                raise document.error(
                    f"source.columns.{name}",
                    f"the column {name!r} can not be a feature and the target or owner as well",
                )
        read = tuple((n, read_column(document, n, t)) for n, t in self.columns.items())
        return replace(self, features=read)

    @property
    def _layout(self) -> Layout:
        return Layout(self.delimiter, self.header, self.skip_lines, self.encoding)

    def described(self, path: Path) -> Dataset:
        """Return what learners must know."""
        limits = [pair for _, column in self.features for pair in column.limits]
        return supervised(path, Domain.of(*limits), self.classes, self.target_bound)

    def read(self, path: Path) -> Reading:
        """Return the examples of the file."""
        quarantine, names = Quarantine(path.name), OwnerNames()
        sieve = Sieve(path, self._layout, self._readers(), quarantine)
        features, targets, owners, times = [], [], [], []
        for part in sieve.parts():
            blocks = [column.features(part[f"{name}"]) for name, column in self.features]
            features.append(np.hstack(blocks))
            targets.append(part[self.target])
            if self.owner:
                owners.append(names.numbers(part[self.owner].tolist()))
            if self.time:
                times.append(part[self.time])
        examples = Examples(
            path.name,
            np.concatenate(features),
            self._targets(np.concatenate(targets)),
            owners=np.concatenate(owners) if owners else None,
            times=ranked(np.concatenate(times)) if times else None,
        )
        return Reading(examples, quarantine, names if owners else None)

    def _targets(self, values: NDArray[np.float64]) -> NDArray[Any]:
        return np.array(self.classes)[values.astype(np.int64)] if self.classes else values

    def _readers(self) -> dict[str, Reader]:
        written = Cells(self.decimal_comma)
        readers: dict[str, Reader] = {}
        if self.time:
            readers[self.time] = read_moments(written)
        if self.owner:
            readers[self.owner] = read_texts
        bound = self.target_bound
        target = Vocabulary(self.classes) if self.classes else Bounded(low=-bound, high=bound)
        readers[self.target] = partial(target.read, written=written)
        for name, column in self.features:
            readers[name] = partial(column.read, written=written)
        return readers
