"""A user's own ratings: lines of who met what, how they liked it, and when."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from dealfl.data import Dataset, Examples, Task
from dealfl.data.readers import Block, Interactions, Layout
from dealfl.data.sources.base import Source, Time, require_columns
from dealfl.data.sources.columns import Bounded, Floats, Reader, Vocabulary, Wrong, read_moments
from dealfl.data.sources.memory import Place
from dealfl.data.sources.quarantine import Quarantine
from dealfl.data.sources.reading import OwnerNames, Reading, rank, read_columns
from dealfl.errors import BadInput
from dealfl.settings import FLAT, Document, Labels, Text, Whole

__all__ = ["RatingsSource"]

_LARGEST = float(2**53)
_MANY = 1 << 24


class RatingsSource(Source, frozen=True, kw_only=True, tag="ratings"):
    """Interactions: all items of an owner form one history, which is one example."""

    owner: Annotated[Text, Meta(description="column that names the owner")]
    item: Annotated[Text, Meta(description="column that names the item")]
    rating: Annotated[
        Text, Meta(description="column of the ratings; without it, every item counts")
    ] = ""
    liked_from: Annotated[
        float | None, Meta(description="lowest rating that makes an item part of a history")
    ] = None
    time: Time = ""
    items: Annotated[
        tuple[Any, ...],
        Labels(1),
        Meta(description="all possible items; rows with others are quarantined"),
    ] = ()
    first_item: Annotated[Whole, Meta(description="lowest item, if items are whole numbers")] = 0
    last_item: Annotated[
        Whole, Meta(description="highest item, if items are whole numbers; instead of `items`")
    ] = 0
    layout: Annotated[Layout, FLAT] = Layout()

    def check(self, document: Document, path: Place) -> None:
        """Reject a source that contradicts itself or the data."""
        keys = ("owner", "item", "rating", "time")
        wanted = {f"source.{key}": getattr(self, key) for key in keys if getattr(self, key)}
        require_columns(document, path, self.layout, wanted)
        counts = Counter(wanted.values())
        for key, name in wanted.items():
            if counts[name] > 1:
                raise document.error(key, f"the column {name!r} cannot have two roles")
        if bool(self.rating) != (self.liked_from is not None):
            raise document.error(
                "source.liked_from",
                "source takes rating and liked_from together: the column, and the lowest rating "
                "with which an item belongs to a history",
            )
        if bool(self.items) == bool(self.last_item):
            raise document.error(
                "source.items", "source takes either items or last_item (with first_item)"
            )
        if not self.items and not self.first_item <= self.last_item < self.first_item + _MANY:
            raise document.error(
                "source.last_item",
                f"source.last_item is {self.last_item}; it takes a whole number ≥ "
                f"first_item, which is {self.first_item}, and at most {_MANY:,} items",
            )

    @property
    def n_items(self) -> int:
        """Number of possible items."""
        return len(self.items) or self.last_item - self.first_item + 1

    def label(self, item: int) -> Any:  # noqa: ANN401
        """Return the name of an item in the file.

        Parameters
        ----------
        item
            Place of the item, ≥ 0.

        Returns
        -------
        object
            A string or a number.
        """
        return self.items[item] if self.items else item + self.first_item

    def number(self, item: Any) -> int:  # noqa: ANN401
        """Return the number of an item.

        Parameters
        ----------
        item
            An item as the data name it.

        Returns
        -------
        int
            Its number, which begins with 0.
        """
        number = int(item) - self.first_item if not self.items else -1
        if item in self.items:
            number = self.items.index(item)
        if not 0 <= number < self.n_items:
            raise BadInput(f"the item {item!r} is not among the {self.n_items:,} items of the job")
        return number

    def describe(self, path: Place) -> Dataset:
        """Return the number of items, and the lowest liked rating."""
        facts = {"n_items": self.n_items, "liked_from": self.liked_from}
        return self._dataset(path, Task.RECOMMENDATION, 0, **facts)

    def read(self, path: Place, *, part: bool = False) -> Reading:
        """Read the histories: one example for each owner."""
        quarantine, names = Quarantine(path.name), OwnerNames()
        readers = self.readers(names)
        if self.time:
            readers[self.time] = read_moments
        found = read_columns(path, self.layout, readers, quarantine, part=part)
        interactions = Interactions(
            found[self.owner],
            found[self.item].astype(np.int64),
            self.n_items,
            len(found[self.item]),
            found.get(self.rating),
            rank(found[self.time]) if self.time else None,
        )
        histories = interactions.histories(self.liked_from)
        if not part and not len(histories.owners):
            raise BadInput(
                f"{path}: no rating reaches source.liked_from = {self.liked_from:g}; lower it"
            )
        examples = Examples(
            path.name, histories.items, owners=histories.owners, times=histories.times
        )
        met, notes = len(np.unique(found[self.owner])), []
        if met > len(examples):
            notes.append(
                f"{met - len(examples):,} of {met:,} owners have no item with a rating of at least "
                f"{self.liked_from:g} (source.liked_from): they have no history"
            )
        return Reading(examples, quarantine, names, tuple(notes))

    def readers(self, names: OwnerNames) -> dict[str, Reader]:
        """Return the readers of the columns of owners, items and ratings.

        Parameters
        ----------
        names
            Receives the names of the owners.

        Returns
        -------
        dict
            Readers by column: owners as numbers, items as places that start at 0, ratings.
        """
        items = Vocabulary(self.items).read if self.items else self._read_items
        readers: dict[str, Reader] = {self.owner: names.read, self.item: items}
        if self.rating:
            readers[self.rating] = Bounded(low=-_LARGEST, high=_LARGEST).read
        return readers

    def _read_items(self, block: Block, column: int) -> tuple[Floats, Wrong]:
        numbered = Bounded(low=float(self.first_item), high=float(self.last_item))
        values, wrong = numbered.read(block, column)
        fractional = np.flatnonzero(values != np.floor(values)).tolist()
        cells = block.texts(column) if fractional else []
        for row in fractional:
            wrong.setdefault(row, f"{cells[row][:40]!r} is not a whole number")
        return values - self.first_item, wrong
