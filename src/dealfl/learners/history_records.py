"""Records of items: all items of an owner are one history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from scipy import sparse

from dealfl.learners.records import Record, StoredRecord

__all__ = ["HeldRecords", "Histories"]


class HeldRecords(Sequence[StoredRecord]):
    """Records as bodies by owner, so that reading many of them makes few objects.

    Parameters
    ----------
    bodies : mapping of bytes to sequence of bytes
        Encoded contents by the hash of the owner.

    Examples
    --------
    >>> list(HeldRecords({b"ann": [b"1", b"2"]}))[1]
    StoredRecord(owner=b'ann', body=b'2')
    """

    def __init__(self, bodies: Mapping[bytes, Sequence[bytes]]) -> None:
        self.bodies = bodies

    @classmethod
    def of(cls, records: Sequence[Record]) -> HeldRecords:
        """Return the same records by owner.

        Parameters
        ----------
        records : sequence of Record
            Records of any owners.

        Returns
        -------
        HeldRecords
            The records.
        """
        if isinstance(records, HeldRecords):
            return records
        bodies: dict[bytes, list[bytes]] = {}
        for owner, group in groupby(records, _OWNER):
            bodies.setdefault(owner, []).extend(map(_BODY, group))
        return cls(bodies)

    def __len__(self) -> int:
        return sum(map(len, self.bodies.values()))

    def __iter__(self) -> Iterator[StoredRecord]:
        for owner, bodies in self.bodies.items():
            yield from (StoredRecord(owner, body) for body in bodies)

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 - an index or a slice
        return list(self)[place]


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
        return _decode_item(body)

    @staticmethod
    def by_owner(records: Sequence[Record]) -> dict[bytes, set[int]]:
        """Return the items of each owner.

        Parameters
        ----------
        records : sequence of Record
            Records of items.

        Returns
        -------
        dict of bytes to set of int
            Items by the hash of the owner.
        """
        bodies = HeldRecords.of(records).bodies
        return {owner: set(map(_decode_item, some)) for owner, some in bodies.items()}

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
        rows = [sorted(items) for _, items in sorted(Histories.by_owner(records).items())]
        starts = np.cumsum([0, *map(len, rows)])
        items = np.array([item for row in rows for item in row], dtype=np.int64)
        ones = np.ones(len(items), dtype=np.int64)
        return sparse.csr_array((ones, items, starts), shape=(len(rows), n_items))


_OWNER, _BODY = attrgetter("owner"), attrgetter("body")
_decode_item = msgspec.msgpack.Decoder(int).decode
