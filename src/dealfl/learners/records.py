"""Records: examples as callers hand them over and as a worker stores them.

A row arrives as features and target, and is stored as the integers that its learner computes with:
1, the features on their grid, and the target. Records of items hold integers from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes
from dealfl.exact import Statistics, Work

Points = NDArray[np.int32]

_PACKED = np.array([1], "<i4").tobytes()  # the first four bytes of a row of integers


class Record(Protocol):
    """An example, or a part of one, as a worker stores it."""

    @property
    def owner(self) -> bytes:
        """The hash of the owner."""

    @property
    def body(self) -> bytes:
        """The encoded content."""


class StoredRecord(NamedTuple):
    """A record without a number.

    Parameters
    ----------
    owner, body : bytes
        Hash of the owner, and encoded content.
    """

    owner: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """The difference between two sets of records, and the work of computing it.

    Parameters
    ----------
    delta : Statistics
        Statistics of what is learned, minus those of what is forgotten.
    learned, forgotten : Work
        Parts of the work; together they are one call.
    """

    delta: Statistics
    learned: Work
    forgotten: Work

    @property
    def work(self) -> Work:
        """The work of the call."""
        return self.learned + self.forgotten


class Rows:
    """Encoding of records that hold a row of features and its target; each row is an example.

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
        features, target
            Numbers, and a number or a string.

        Returns
        -------
        bytes
            The body.
        """
        plain = target.item() if isinstance(target, np.generic) else target
        return msgspec.msgpack.encode(([float(value) for value in features], plain))

    @staticmethod
    def encode_all(X: Any, targets: NDArray[Any]) -> list[bytes]:  # noqa: ANN401
        """Return the bodies of many records, as `encode` does.

        Parameters
        ----------
        X : ndarray or csr_array
            Features, one row per record.
        targets : ndarray
            Target of each row.

        Returns
        -------
        list of bytes
            One body per row.
        """
        dense = X.toarray() if hasattr(X, "toarray") else X
        return list(map(Rows.encode, dense.tolist(), targets.tolist()))

    @staticmethod
    def decode(body: bytes) -> tuple[list[float], Any]:
        """Return the content of a body.

        Parameters
        ----------
        body : bytes
            Result of `encode`.

        Returns
        -------
        tuple of (list of float, object)
            Features and target of the row.
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
        tuple of (ndarray of float64, list)
            Features and targets, one row per record.
        """
        pairs = [Rows.decode(record.body) for record in records]
        return np.array([features for features, _ in pairs]), [target for _, target in pairs]

    @staticmethod
    def is_packed(body: bytes) -> bool:
        """Return whether a body holds the integers of a learner.

        Parameters
        ----------
        body : bytes
            Body of a record.

        Returns
        -------
        bool
            False for results of `encode`.
        """
        return body[:4] == _PACKED

    @staticmethod
    def points(records: Sequence[Record], columns: int) -> Points:
        """Return the integers of packed records.

        Parameters
        ----------
        records : sequence of Record
            Packed records.
        columns : int
            Number of integers of a row.

        Returns
        -------
        ndarray of int32
            One row per record.
        """
        joined = b"".join([record.body for record in records])
        if len(joined) != 4 * columns * len(records):
            raise BadBytes(
                f"a stored example does not have {columns} integers; it was stored by a learner "
                "with other settings"
            )
        return np.frombuffer(joined, "<i4").reshape(-1, columns)
