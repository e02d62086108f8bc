"""What a worker's records are to its learner: rows with targets, or interactions of histories.

A row stands alone; all interactions of one owner are one history, which changes as a whole. The
statistics of a worker are the sum over its rows, or over its histories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.errors import NotLearned
from dealfl.learners import Learner, Work
from dealfl.statistics import Statistics
from dealfl.worker.tables import Record

__all__ = ["Histories", "Material", "Rows", "material_for"]

Made = Callable[[], Any]


class Material(Protocol):
    """Turns records into statistics."""

    @property
    def whole_owners(self) -> bool:
        """Whether all records of an owner are one example."""

    def statistics(self, records: Sequence[Record]) -> tuple[Statistics, Work]:
        """Return the statistics of records (of whole owners, where that matters), and the work."""

    def score(self, learner: Learner, records: Sequence[Record]) -> float | None:
        """Return how well a learner predicts records; None where that has no meaning."""


class Rows:
    """Each record is a row of features and its target.

    >>> Rows.decode(Rows.encode([1.0, 2.5], "spam"))
    ([1.0, 2.5], 'spam')
    """

    whole_owners = False

    def __init__(self, make: Made) -> None:
        self._make = make

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

    def statistics(self, records: Sequence[Record]) -> tuple[Statistics, Work]:
        """Return the statistics of rows, and what it took."""
        learner = self._make()
        if not records:
            return Statistics.zero(learner.schema), Work(0, 0)
        delta = learner.learn(*_table(records))
        return delta, learner.last_work

    def score(self, learner: Learner, records: Sequence[Record]) -> float | None:
        """Return the learner's own score on rows; None without rows, or with nothing learned."""
        # a model of statistics alone holds no neighbours to look at: it votes
        score = getattr(learner, "score_votes", None) or learner.score  # type: ignore[attr-defined]
        try:
            return float(score(*_table(records))) if records else None
        except NotLearned:
            return None


def _table(records: Sequence[Record]) -> tuple[NDArray[np.float64], list[Any]]:
    pairs = [Rows.decode(record.body) for record in records]
    return np.array([features for features, _ in pairs]), [target for _, target in pairs]


class Histories:
    """Each record is one item; all items of an owner are one history, a set.

    >>> Histories.decode(Histories.encode(17))
    17
    """

    whole_owners = True

    def __init__(self, make: Made, n_items: int) -> None:
        self._make = make
        self._items = n_items

    @staticmethod
    def encode(item: int) -> bytes:
        """Return a record's body."""
        return msgspec.msgpack.encode(int(item))

    @staticmethod
    def decode(body: bytes) -> int:
        """Return the item of a body."""
        return msgspec.msgpack.decode(body, type=int)

    def statistics(self, records: Sequence[Record]) -> tuple[Statistics, Work]:
        """Return the statistics of histories, and what it took."""
        learner = self._make()
        histories: dict[bytes, set[int]] = {}
        for record in records:
            histories.setdefault(record.owner, set()).add(self.decode(record.body))
        if not histories:
            return Statistics.zero(learner.schema), Work(0, 0)
        rows = [sorted(items) for _, items in sorted(histories.items())]
        starts = np.cumsum([0, *map(len, rows)])
        items = np.array([item for row in rows for item in row], dtype=np.int64)
        ones = np.ones(len(items), dtype=np.int64)
        table = sparse.csr_array((ones, items, starts), shape=(len(rows), self._items))
        delta = learner.learn(table)
        return delta, learner.last_work

    def score(self, learner: Learner, records: Sequence[Record]) -> float | None:  # noqa: ARG002
        """Return None: a ranking has no score here."""
        return None


def material_for(make: Made) -> Material:
    """Return the material of the learners that `make` makes."""
    learner = make()
    n_items = learner.settings.get("n_items")
    return Rows(make) if n_items is None else Histories(make, int(n_items))
