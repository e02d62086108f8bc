"""What a model takes, from what a user has: raw rows to features, items to numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dealfl.api.data import feature_columns
from dealfl.api.fleet import Fleet
from dealfl.errors import BadInput
from dealfl.jobs import read_source
from dealfl.jobs.sources import CsvSource, MemoryTable, RatingsSource, sift
from dealfl.learners import as_matrix, is_frame

__all__ = ["ItemNames", "Items", "features_of", "items_of", "names_of_features"]

Items = Iterable[Any]


def features_of(fleet: Fleet, X: object) -> Any:  # noqa: ANN401 - an array or a csr
    """Return raw rows as the model of a fleet takes them."""
    plan = fleet.simulated.plan
    source = read_source(fleet.document) if "source" in fleet.document.tables else None
    if isinstance(source, CsvSource):
        raw: Any = _read_rows(source, X)
    else:
        domain = plan.subject.dataset.domain
        assert domain is not None, f"{plan.subject.name} has no domain"
        raw = as_matrix(X, domain.n_features)
    return raw if plan.feature_map is None else plan.feature_map.transform(raw)


def _read_rows(source: CsvSource, X: object) -> Any:  # noqa: ANN401
    """Return rows by the columns of a source; BadInput names the first that does not fit."""
    wanted = [name for name, _ in source.features]
    columns = feature_columns(X)
    if not is_frame(X):
        if len(columns) != len(wanted):
            raise BadInput(f"X has {len(columns)} columns; the job has {len(wanted)}")
        columns = dict(zip(wanted, columns.values(), strict=True))
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise BadInput(
            f"X has no column {missing[0]!r}; its columns: {', '.join(map(str, columns))}"
        )
    table = MemoryTable("X", {name: columns[name] for name in wanted})
    readers = {name: column.read for name, column in source.features}
    places = {name: place for place, name in enumerate(wanted)}
    parts = []
    for block in table.read_blocks(len(wanted)):
        sifted = sift(block, readers, places)
        if sifted.bad:
            raise BadInput(f"X, {sifted.bad[0]}")
        parts.append(
            np.hstack([column.features(sifted.values[name]) for name, column in source.features])
        )
    return np.vstack(parts) if parts else np.empty((0, len(wanted)))


def names_of_features(fleet: Fleet) -> list[str]:
    """Return the names of a model's features; none with a feature map, or if nobody named them."""
    document = fleet.document
    if fleet.simulated.plan.feature_map is not None or "source" not in document.tables:
        return []
    source = read_source(document)
    if not isinstance(source, CsvSource) or not source.layout.header:
        return []
    names = source.feature_names
    unnamed = [f"x{n + 1}" for n in range(len(names))]
    return [] if fleet.data is not None and names == unnamed else names


# -- items --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ItemNames:
    """The items of a job by their numbers, which begin with 0."""

    items: Sequence[Any]
    first: int
    count: int

    def numbers(self, history: Items) -> list[int]:
        """Return the numbers of items."""
        if not self.items:
            return [self._number(int(item) - self.first, item) for item in history]
        places = {item: place for place, item in enumerate(self.items)}
        return [self._number(places.get(item, -1), item) for item in history]

    def _number(self, number: int, item: object) -> int:
        if not 0 <= number < self.count:
            raise BadInput(f"the item {item!r} is not among the {self.count:,} items of the job")
        return number

    def labels(self, numbers: Sequence[int]) -> list[Any]:
        """Return the items of numbers."""
        if self.items:
            return [self.items[number] for number in numbers]
        return [number + self.first for number in numbers]


def items_of(fleet: Fleet, n_items: int) -> ItemNames:
    """Return the items of a fleet, as its [source] names them."""
    document = fleet.document
    source = read_source(document) if "source" in document.tables else None
    if isinstance(source, RatingsSource):
        return ItemNames(source.items, source.first_item, source.n_items)
    return ItemNames((), 0, n_items)
