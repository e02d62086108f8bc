"""The user's own table: delimited text, one example per row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from dealfl.datasets import Dataset, Domain, Examples
from dealfl.datasets.readers import Layout
from dealfl.jobs.sources.base import (
    Classes,
    File,
    TargetBound,
    Time,
    describe_table,
    require_columns,
    require_one_target,
)
from dealfl.jobs.sources.columns import (
    Bounded,
    Reader,
    Vocabulary,
    WordColumn,
    read_column,
    read_moments,
)
from dealfl.jobs.sources.memory import Place
from dealfl.jobs.sources.reading import OwnerNames, Quarantine, Reading, rank, read_columns
from dealfl.settings import FLAT, Document, Text

__all__ = ["CsvSource"]


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
        Text,
        Meta(description="column that names the owner; the rows of an owner can stay together"),
    ] = ""
    time: Time = ""
    layout: Annotated[Layout, FLAT] = Layout()
    features: tuple[tuple[str, Bounded | WordColumn], ...] = ()

    def settle(self, document: Document) -> CsvSource:
        """Return the source with its columns read from the job file.

        Parameters
        ----------
        document
            The job file.

        Returns
        -------
        CsvSource
            The same source, with `features`.

        Raises
        ------
        BadInput
            If the description of a column is not valid; the message names the line.
        """
        read = tuple((name, read_column(document, name, t)) for name, t in self.columns.items())
        return replace(self, features=read)

    def check(self, document: Document, path: Place) -> None:
        """Reject a source that contradicts itself or the data file.

        Parameters
        ----------
        document
            The job file, for the line numbers in errors.
        path
            The data: a file, or a table in memory.

        Raises
        ------
        BadInput
            If keys contradict each other, or if the data lack a column.
        """
        require_one_target(document, self.classes, self.target_bound)
        wanted = {
            f"source.{key}": getattr(self, key)
            for key in ("target", "owner", "time")
            if getattr(self, key)
        }
        for name in self.columns:
            wanted[f"source.columns.{name}"] = name
        require_columns(document, path, self.layout, wanted)
        for name in self.columns:
            if name in (self.target, self.owner):
                raise document.error(
                    f"source.columns.{name}",
                    f"the column {name!r} cannot be a feature and also the target or owner",
                )

    def describe(self, path: Place) -> Dataset:
        """Return the properties of the data that learners need.

        Parameters
        ----------
        path
            The data: a file, or a table in memory; only its name is used.

        Returns
        -------
        Dataset
            Task, limits of the features, classes or bound of the target.
        """
        limits = [pair for _, column in self.features for pair in column.limits]
        return describe_table(path, Domain.of(*limits), self.classes, self.target_bound)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features; the feature of a word is called column=word."""
        names: list[str] = []
        for name, column in self.features:
            words = column.words if isinstance(column, WordColumn) else ()
            names += [f"{name}={word}" for word in words] or [name]
        return names

    def read(self, path: Place, *, part: bool = False) -> Reading:
        """Read the examples.

        Parameters
        ----------
        path
            The data: a file, its content, or a table in memory.
        part
            Whether the data are a part of a file. A part may have no usable row, and its
            quarantined rows are not logged.

        Returns
        -------
        Reading
            Examples, quarantined rows and names of owners.

        Raises
        ------
        BadInput
            If no row can be used.
        """
        quarantine, names = Quarantine(path.name), OwnerNames()
        readers = self._readers(names)
        found = read_columns(path, self.layout, readers, quarantine, part=part)
        examples = Examples(
            path.name,
            np.hstack([column.features(found[name]) for name, column in self.features]),
            self._targets(found[self.target]),
            owners=found[self.owner] if self.owner else None,
            times=rank(found[self.time]) if self.time else None,
        )
        return Reading(examples, quarantine, names if self.owner else None)

    def _targets(self, values: NDArray[np.float64]) -> NDArray[Any]:
        return np.array(self.classes)[values.astype(np.int64)] if self.classes else values

    def _readers(self, names: OwnerNames) -> dict[str, Reader]:
        bound = self.target_bound
        target = Vocabulary(self.classes) if self.classes else Bounded(low=-bound, high=bound)
        readers: dict[str, Reader] = {self.time: read_moments} if self.time else {}
        if self.owner:
            readers[self.owner] = names.read
        readers[self.target] = target.read
        return readers | {name: column.read for name, column in self.features}
