"""The user's own table: delimited text, one example per row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from dealfl.data import Dataset, Domain, Examples, Task
from dealfl.data.readers import Block, Layout
from dealfl.data.sources.base import (
    Classes,
    Source,
    TargetBound,
    Time,
    require_columns,
    require_one_target,
)
from dealfl.data.sources.columns import (
    Bounded,
    Column,
    Reader,
    Vocabulary,
    WordColumn,
    read_column,
    read_moments,
)
from dealfl.data.sources.memory import Place
from dealfl.data.sources.quarantine import Quarantine, Quarantined
from dealfl.data.sources.reading import OwnerNames, Reading, rank, read_columns, sift
from dealfl.settings import FLAT, Document, Text

__all__ = ["CsvSource"]


class CsvSource(Source, frozen=True, kw_only=True, tag="csv"):
    """A table: each row is an example, some columns are its features, one is its target."""

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
    features: tuple[tuple[str, Column], ...] = ()

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
        """
        read = tuple((name, read_column(document, name, t)) for name, t in self.columns.items())
        return replace(self, features=read)

    def check(self, document: Document, path: Place) -> None:
        """Reject a source that contradicts itself or the data."""
        require_one_target(document, self.classes, self.target_bound)
        keys = [key for key in ("target", "owner", "time") if getattr(self, key)]
        wanted = {f"source.{key}": getattr(self, key) for key in keys}
        wanted |= {f"source.columns.{name}": name for name in self.columns}
        require_columns(document, path, self.layout, wanted)
        for name in self.columns:
            if name in (self.target, self.owner):
                raise document.error(
                    f"source.columns.{name}",
                    f"the column {name!r} cannot be a feature and also the target or owner",
                )

    def describe(self, path: Place) -> Dataset:
        """Return task, limits of the features, classes or bound of the target."""
        limits = [pair for _, column in self.features for pair in column.limits]
        task = Task.CLASSIFICATION if self.classes else Task.REGRESSION
        target = {"classes": self.classes, "target_bound": self.target_bound}
        return self._dataset(path, task, len(limits), domain=Domain.of(*limits), **target)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features; the feature of a word is called column=word."""
        names: list[str] = []
        for name, column in self.features:
            words = column.words if isinstance(column, WordColumn) else ()
            names += [f"{name}={word}" for word in words] or [name]
        return names

    def read_features(
        self, block: Block, places: Mapping[str, int]
    ) -> tuple[list[int], NDArray[np.float64], list[Quarantined]]:
        """Read the features of a block of rows; the target is not needed.

        Parameters
        ----------
        block
            Rows of the table.
        places
            Place of each column, by name.

        Returns
        -------
        lines : list of int
            Numbers of the usable rows.
        features : array
            Their features.
        bad : list of Quarantined
            The other rows.
        """
        sifted = sift(block, {name: column.read for name, column in self.features}, places)
        return sifted.lines.tolist(), self._features(sifted.values), sifted.bad

    def _features(self, values: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        return np.hstack([column.features(values[name]) for name, column in self.features])

    def read(self, path: Place, *, part: bool = False) -> Reading:
        """Read the examples."""
        quarantine, names = Quarantine(path.name), OwnerNames()
        readers = self._readers(names)
        found = read_columns(path, self.layout, readers, quarantine, part=part)
        targets: NDArray[Any] = found[self.target]
        if self.classes:
            targets = np.array(self.classes)[targets.astype(np.int64)]
        examples = Examples(
            path.name,
            self._features(found),
            targets,
            owners=found[self.owner] if self.owner else None,
            times=rank(found[self.time]) if self.time else None,
        )
        return Reading(examples, quarantine, names if self.owner else None)

    def _readers(self, names: OwnerNames) -> dict[str, Reader]:
        bound = self.target_bound
        target = Vocabulary(self.classes) if self.classes else Bounded(low=-bound, high=bound)
        readers: dict[str, Reader] = {self.time: read_moments} if self.time else {}
        if self.owner:
            readers[self.owner] = names.read
        readers[self.target] = target.read
        return readers | {name: column.read for name, column in self.features}
