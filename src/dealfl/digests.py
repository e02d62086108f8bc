"""Digests of statistics: equal if and only if the statistics are, independent of their storage.

An array is divided into blocks of 4,096 indices. The hash of a block covers its non-zeros, as
offset and 128-bit signed value. It does not depend on dense or sparse storage or on the width of
the integers. An empty block has no hash. Only blocks that changed are hashed again.
"""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from dealfl.integers import WORD_BYTES, Entries

__all__ = ["BLOCK", "array_digest", "block_hashes", "whole_digest"]

BLOCK = 4096
_RECORD_BYTES = 2 + WORD_BYTES


def block_hashes(entries: Entries) -> dict[int, bytes]:
    """Return the hash of each block that holds an entry.

    Parameters
    ----------
    entries : Entries
        The non-zero values of an array.

    Returns
    -------
    dict of int to bytes
        SHA-256 by block number.

    Examples
    --------
    >>> sorted(block_hashes(Entries.of({1: 7, 5000: 8})))
    [0, 1]
    """
    if not len(entries):
        return {}
    blocks = entries.indices // BLOCK
    starts = np.flatnonzero(np.concatenate(([True], blocks[1:] != blocks[:-1])))
    stops = np.append(starts[1:], len(blocks))
    records = memoryview(_records(entries).tobytes())
    return {
        int(blocks[start]): hashlib.sha256(
            records[start * _RECORD_BYTES : stop * _RECORD_BYTES]
        ).digest()
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    }


def _records(entries: Entries) -> NDArray[np.uint8]:
    records = np.empty((len(entries), _RECORD_BYTES), dtype=np.uint8)
    offsets = (entries.indices % BLOCK).astype("<u2")
    records[:, :2] = offsets.view(np.uint8).reshape(-1, 2)
    records[:, 2:] = entries.values.words()
    return records


def array_digest(hashes: Mapping[int, bytes]) -> bytes:
    """Return the digest of an array from the hashes of its blocks.

    Parameters
    ----------
    hashes : mapping of int to bytes
        Result of `block_hashes`.

    Returns
    -------
    bytes
        SHA-256 of the block numbers and hashes, in ascending order.
    """
    whole = hashlib.sha256()
    for block in sorted(hashes):
        whole.update(block.to_bytes(8, "little"))
        whole.update(hashes[block])
    return whole.digest()


def whole_digest(settings: bytes, arrays: Iterable[tuple[str, bytes]]) -> str:
    """Return the digest of statistics from their schema and the digests of their arrays.

    Parameters
    ----------
    settings : bytes
        Canonical bytes of the schema.
    arrays : iterable of (str, bytes)
        Name and digest of each array, in any order.

    Returns
    -------
    str
        SHA-256 as 64 hexadecimal digits.
    """
    whole = hashlib.sha256(b"dealfl statistics 1\0")
    whole.update(hashlib.sha256(settings).digest())
    for name, digest in sorted(arrays):
        whole.update(hashlib.sha256(name.encode()).digest())
        whole.update(digest)
    return whole.hexdigest()
