"""What a learner's examples are: rows with targets, or histories of items.

A row stands alone. All items of one owner are one history, which changes as a whole. A worker
stores either as records: the hash of an owner, and a body that is encoded here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.learners.base import Learner, Record
from dealfl.statistics import Statistics
from dealfl.work import Work

__all__ = ["Histories", "Rows", "StoredRecord", "statistics_of"]


def statistics_of(
    make: Callable[[], Learner], records: Sequence[Record]
) -> tuple[Statistics, Work]:
    """Return the statistics of records (of whole owners, where that matters), and the work."""
    learner = make()
    return learner.learn_records(records), learner.last_work


class StoredRecord(NamedTuple):
    """A record: the hash of its owner, and its encoded body."""

    owner: bytes
    body: bytes


class Rows:
    """Records that are each a row of features and its target.

    >>> Rows.decode(Rows.encode([1.0, 2.5], "spam"))
    ([1.0, 2.5], 'spam')
    """

    @staticmethod
    def encode(features: Sequence[float] | NDArray[Any], target: object) -> bytes:
        """Return a record's body."""
        plain = target.item() if isinstance(target, np.generic) else target
        return msgspec.msgpack.encode(([float(value) for value in features], plain))

    @staticmethod
    def decode(body: bytes) -> tuple[list[float], Any]:
        """Return the features and the target of a body."""
        features, target = msgspec.msgpack.decode(body)
        return features, target

    @staticmethod
    def table(records: Sequence[Record]) -> tuple[NDArray[np.float64], list[Any]]:
        """Return the features of all records as a matrix, and their targets."""
        pairs = [Rows.decode(record.body) for record in records]
        return np.array([features for features, _ in pairs]), [target for _, target in pairs]


class Histories:
    """Records that are each one item; all items of an owner are one history, a set.

    >>> Histories.decode(Histories.encode(17))
    17
    """

    @staticmethod
    def encode(item: int) -> bytes:
        """Return a record's body."""
        return msgspec.msgpack.encode(int(item))

    @staticmethod
    def decode(body: bytes) -> int:
        """Return the item of a body."""
        return msgspec.msgpack.decode(body, type=int)

    @staticmethod
    def table(records: Sequence[Record], n_items: int) -> sparse.csr_array:
        """Return one row for each owner, with a one for each of its items."""
        histories: dict[bytes, set[int]] = {}
        for record in records:
            histories.setdefault(record.owner, set()).add(Histories.decode(record.body))
        rows = [sorted(items) for _, items in sorted(histories.items())]
        starts = np.cumsum([0, *map(len, rows)])
        items = np.array([item for row in rows for item in row], dtype=np.int64)
        ones = np.ones(len(items), dtype=np.int64)
        return sparse.csr_array((ones, items, starts), shape=(len(rows), n_items))
