"""Records of examples: rows with targets, or single items of histories.

A row is an example of its own. All items of one owner are one history, which changes as a whole. A
worker stores both as records: the hash of an owner, and a body that is encoded here.
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
    """Compute the statistics of records with an empty learner.

    Parameters
    ----------
    make : callable
        Creates an empty learner.
    records : sequence of Record
        Records, of whole owners where that matters.

    Returns
    -------
    statistics : Statistics
        Statistics of the records.
    work : Work
        Cost of computing them.
    """
    learner = make()
    return learner.learn_records(records), learner.last_work


class StoredRecord(NamedTuple):
    """A record: the hash of its owner, and its encoded body."""

    owner: bytes
    body: bytes


class Rows:
    """Encoding of records that hold a row of features and its target.

    Examples
    --------
    >>> Rows.decode(Rows.encode([1.0, 2.5], "spam"))
    ([1.0, 2.5], 'spam')
    """

    @staticmethod
    def encode(features: Sequence[float] | NDArray[Any], target: object) -> bytes:
        """Return the body of a record.

        Parameters
        ----------
        features : sequence of float
            Features of the row.
        target : object
            Target of the row: a number or a string.

        Returns
        -------
        bytes
            The body.
        """
        plain = target.item() if isinstance(target, np.generic) else target
        return msgspec.msgpack.encode(([float(value) for value in features], plain))

    @staticmethod
    def decode(body: bytes) -> tuple[list[float], Any]:
        """Return the content of a body.

        Parameters
        ----------
        body : bytes
            Result of `encode`.

        Returns
        -------
        features : list of float
            Features of the row.
        target : object
            Target of the row.
        """
        features, target = msgspec.msgpack.decode(body)
        return features, target

    @staticmethod
    def table(records: Sequence[Record]) -> tuple[NDArray[np.float64], list[Any]]:
        """Return the content of all records.

        Parameters
        ----------
        records : sequence of Record
            Records of rows.

        Returns
        -------
        features : ndarray of float64
            One row per record.
        targets : list
            One target per record.
        """
        pairs = [Rows.decode(record.body) for record in records]
        return np.array([features for features, _ in pairs]), [target for _, target in pairs]


class Histories:
    """Encoding of records that hold one item; all items of an owner are one history.

    Examples
    --------
    >>> Histories.decode(Histories.encode(17))
    17
    """

    @staticmethod
    def encode(item: int) -> bytes:
        """Return the body of a record.

        Parameters
        ----------
        item : int
            Item number.

        Returns
        -------
        bytes
            The body.
        """
        return msgspec.msgpack.encode(int(item))

    @staticmethod
    def decode(body: bytes) -> int:
        """Return the content of a body.

        Parameters
        ----------
        body : bytes
            Result of `encode`.

        Returns
        -------
        int
            Item number.
        """
        return msgspec.msgpack.decode(body, type=int)

    @staticmethod
    def table(records: Sequence[Record], n_items: int) -> sparse.csr_array:
        """Return the histories of all owners.

        Parameters
        ----------
        records : sequence of Record
            Records of items.
        n_items : int
            Number of items.

        Returns
        -------
        csr_array
            One row per owner, with 1 for each of its items.
        """
        histories: dict[bytes, set[int]] = {}
        for record in records:
            histories.setdefault(record.owner, set()).add(Histories.decode(record.body))
        rows = [sorted(items) for _, items in sorted(histories.items())]
        starts = np.cumsum([0, *map(len, rows)])
        items = np.array([item for row in rows for item in row], dtype=np.int64)
        ones = np.ones(len(items), dtype=np.int64)
        return sparse.csr_array((ones, items, starts), shape=(len(rows), n_items))
