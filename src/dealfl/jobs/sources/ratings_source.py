"""A user's own ratings: lines of who met what, how they liked it, and when."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from dealfl.datasets import Dataset, Examples, Task
from dealfl.datasets.readers import Block, Interactions, Layout
from dealfl.errors import BadInput
from dealfl.jobs.sources.base import File, Time, require_columns
from dealfl.jobs.sources.columns import Bounded, Floats, Reader, Vocabulary, Wrong, read_moments
from dealfl.jobs.sources.memory import Place
from dealfl.jobs.sources.reading import OwnerNames, Quarantine, Reading, rank, read_columns
from dealfl.settings import FLAT, Document, Labels, Text, Whole

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

    def describe(self, path: Place) -> Dataset:
        """Return the properties of the data that learners need.

        Parameters
        ----------
        path
            The data: a file, or a table in memory; only its name is used.

        Returns
        -------
        Dataset
            Task and number of items.
        """
        return Dataset(
            name=path.name,
            task=Task.RECOMMENDATION,
            description="the user's own file",
            rows=0,
            columns=0,
            licence="the user's",
            address=str(path),
            n_items=self.n_items,
            liked_from=self.liked_from,
        )

    def read(self, path: Place, *, part: bool = False) -> Reading:
        """Read the histories.

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
            One example for each owner, quarantined rows and names of owners.

        Raises
        ------
        BadInput
            If no row can be used, or no rating reaches `liked_from`.
        """
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
        return Reading(examples, quarantine, names, self._notes(found[self.owner], examples))

    def _notes(self, owners: NDArray[np.int64], examples: Examples) -> tuple[str, ...]:
        """Return the sentence about owners without a history, if there are some."""
        met = len(np.unique(owners))
        if met == len(examples):
            return ()
        note = (
            f"{met - len(examples):,} of {met:,} owners have no item with a rating of at least "
            f"{self.liked_from:g} (source.liked_from): they have no history"
        )
        return (note,)

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
