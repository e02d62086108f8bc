"""A user's own ratings: lines of who met what, how they liked it, and when."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from dealfl.datasets import Dataset, Examples, Task
from dealfl.datasets.readers import Interactions
from dealfl.errors import BadInput
from dealfl.jobs.sources.columns import Bounded, Cells, Vocabulary
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
from dealfl.jobs.subject import Reading
from dealfl.settings import Document, Labels, Text, Whole

__all__ = ["RatingsSource"]

_LARGEST = float(2**53)
_MANY = 1 << 24


class RatingsSource(Struct, frozen=True, kw_only=True, tag_field="format", tag="ratings"):
    """Interactions: all items of an owner form one history, which is one example."""

    file: File
    owner: Annotated[Text, Meta(description="column that names the owner")]
    item: Annotated[Text, Meta(description="column that names the item")]
    rating: Annotated[
        Text, Meta(description="column of the ratings; without it, every item counts")
    ] = ""
    liked_from: Annotated[
        float | None, Meta(description="lowest rating with which an item belongs to a history")
    ] = None
    time: Time = ""
    items: Annotated[
        tuple[Any, ...],
        Labels(1),
        Meta(description="all possible items; rows with others are quarantined"),
    ] = ()
    first_item: Annotated[Whole, Meta(description="lowest item, where items are whole numbers")] = 0
    last_item: Annotated[
        Whole, Meta(description="highest item, where items are whole numbers; instead of `items`")
    ] = 0
    delimiter: Delimiter = ","
    decimal_comma: DecimalComma = False
    header: Header = True
    skip_lines: SkipLines = 0
    encoding: Encoding = "utf-8"

    def prepared(self, document: Document, path: Path) -> RatingsSource:
        """Return it after the checks that need the job file and the data file."""
        keys = ("owner", "item", "rating", "time")
        wanted = {f"source.{key}": getattr(self, key) for key in keys if getattr(self, key)}
        require_columns(document, path, self._layout, wanted)
        counts = Counter(wanted.values())
        for key, name in wanted.items():
            if counts[name] > 1:
                raise document.error(key, f"the column {name!r} can not be two things at once")
        if bool(self.rating) != (self.liked_from is not None):
            raise document.error(
                "source.liked_from",
                "source takes rating and liked_from together: the column, and the rating from "
                "which an item belongs to a history",
            )
        if bool(self.items) == bool(self.last_item):
            raise document.error(
                "source.items", "source takes either items or last_item (with first_item)"
            )
        if not self.items and not self.first_item <= self.last_item < self.first_item + _MANY:
            raise document.error(
                "source.last_item",
                f"source.last_item is {self.last_item}; it takes a whole number from "
                f"first_item, which is {self.first_item}, on, and at most {_MANY:,} items",
            )
        return self

    @property
    def _layout(self) -> Layout:
        return Layout(self.delimiter, self.header, self.skip_lines, self.encoding)

    @property
    def _n_items(self) -> int:
        return len(self.items) or self.last_item - self.first_item + 1

    def described(self, path: Path) -> Dataset:
        """Return what learners must know."""
        return Dataset(
            name=path.name,
            task=Task.RECOMMENDATION,
            description="a file of the user's own",
            rows=0,
            columns=0,
            licence="the user's",
            address=str(path),
            n_items=self._n_items,
            liked_from=self.liked_from,
        )

    def read(self, path: Path) -> Reading:
        """Return the histories of the file."""
        quarantine, names = Quarantine(path.name), OwnerNames()
        sieve = Sieve(path, self._layout, self._readers(), quarantine)
        found: dict[str, list[NDArray[Any]]] = {
            "owners": [],
            "items": [],
            "values": [],
            "times": [],
        }
        for part in sieve.parts():
            found["owners"].append(names.numbers(part[self.owner].tolist()))
            found["items"].append(part[self.item])
            if self.rating:
                found["values"].append(part[self.rating])
            if self.time:
                found["times"].append(part[self.time])
        arrays = {key: np.concatenate(parts) for key, parts in found.items() if parts}
        interactions = Interactions(
            arrays["owners"],
            arrays["items"].astype(np.int64),
            self._n_items,
            len(arrays["items"]),
            arrays.get("values"),
            ranked(arrays["times"]) if self.time else None,
        )
        histories = interactions.histories(self.liked_from)
        if not len(histories.owners):
            raise BadInput(
                f"{path}: no rating reaches source.liked_from = {self.liked_from:g}; lower it"
            )
        examples = Examples(
            path.name, histories.items, owners=histories.owners, times=histories.times
        )
        return Reading(examples, quarantine, names)

    def _readers(self) -> dict[str, Reader]:
        written = Cells(self.decimal_comma)
        readers: dict[str, Reader] = {self.owner: read_texts, self.item: self._items(written)}
        if self.rating:
            anything = Bounded(low=-_LARGEST, high=_LARGEST)
            readers[self.rating] = partial(anything.read, written=written)
        if self.time:
            readers[self.time] = read_moments(written)
        return readers

    def _items(self, written: Cells) -> Reader:
        if self.items:
            return partial(Vocabulary(self.items).read, written=written)
        numbered = Bounded(low=float(self.first_item), high=float(self.last_item))

        def read(cells: list[str]) -> tuple[NDArray[Any], dict[int, str]]:
            values, wrong = numbered.read(cells, written)
            for place in np.flatnonzero(values != np.floor(values)).tolist():
                wrong.setdefault(place, f"{cells[place][:40]!r} is not a whole number")
            return values - self.first_item, wrong

        return read
