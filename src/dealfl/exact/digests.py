"""The digest of an array of integers, computed block by block.

The digests of two arrays are equal if and only if their non-zero values are. An array is divided
into blocks of 4,096 indices. The hash of a block covers its non-zeros, as offset and 128-bit signed
value. It does not depend on dense or sparse storage or on the width of the integers. An empty block
has no hash. Only blocks that changed are hashed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.exact.compiled import is_compiled
from dealfl.exact.entries import Entries
from dealfl.exact.integers import WORD_BYTES

__all__ = ["BLOCK", "BlockHashes", "array_digest", "block_hashes", "whole_digest"]

BLOCK = 4096
_RECORD_BYTES = 2 + WORD_BYTES
_MAX_MARKS = 1 << 17  # blocks of an array that have a mark each; more blocks are kept in a set
_RUN = 64  # blocks that are read at a time


class BlockHashes:
    """The hashes of the blocks of one live array, and which of them are stale.

    Parameters
    ----------
    size : int
        Number of integers of the array.

    Attributes
    ----------
    stale : ndarray of bool or set of int
        A mark per block, or the numbers of stale blocks if there are very many blocks. Set
        the marks after changing cells in place.

    Examples
    --------
    >>> hashes = BlockHashes(9000)
    >>> hashes.mark(np.array([5, 8000]))
    >>> np.flatnonzero(hashes.stale).tolist()
    [0, 1]
    """

    def __init__(self, size: int) -> None:
        blocks = -(-size // BLOCK)
        self.stale: NDArray[np.bool_] | set[int] = set()
        if blocks <= _MAX_MARKS:
            self.stale = np.zeros(blocks, dtype=np.bool_)
        self._hashes: dict[int, bytes] = {}
        self._digest: bytes | None = None

    def mark(self, indices: NDArray[np.int64] | slice) -> None:
        """Note that some integers changed.

        Parameters
        ----------
        indices : ndarray of int64 or slice
            Their ascending indices.
        """
        if isinstance(indices, slice):
            indices = np.arange(indices.start // BLOCK * BLOCK, indices.stop, BLOCK)
        if not isinstance(self.stale, set) and len(indices) > len(self.stale):
            ends = np.searchsorted(indices, BLOCK * np.arange(1, 1 + len(self.stale)))
            self.stale |= np.diff(ends, prepend=0) > 0
            return
        blocks = indices // BLOCK
        if isinstance(self.stale, set):
            self.stale.update(blocks[np.diff(blocks, prepend=-1) != 0].tolist())
        else:
            self.stale[blocks] = True

    @property
    def is_stale(self) -> bool:
        """Whether an integer has changed since the last digest."""
        return bool(self.stale) if isinstance(self.stale, set) else bool(self.stale.any())

    def digest(self, entries: Callable[[int, int], Entries]) -> bytes:
        """Return the digest of the array.

        Parameters
        ----------
        entries : callable
            Returns the entries with start ≤ index < stop.

        Returns
        -------
        bytes
            See `array_digest`.
        """
        stale = self.stale
        marked = sorted(stale) if isinstance(stale, set) else np.flatnonzero(stale).tolist()
        if marked or self._digest is None:
            for first, stop in _runs(marked):
                for block in range(first, stop):
                    self._hashes.pop(block, None)
                self._hashes.update(block_hashes(entries(first * BLOCK, stop * BLOCK)))
            self._digest = array_digest(self._hashes)
            if isinstance(stale, set):
                stale.clear()
            else:
                stale[:] = False
        return self._digest


def _runs(blocks: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending blocks as ranges of at most `_RUN` adjacent ones."""
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and runs[-1][1] == block < runs[-1][0] + _RUN:
            runs[-1] = (runs[-1][0], block + 1)
        else:
            runs.append((block, block + 1))
    return runs


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
    records = _records(entries).reshape(-1).view(np.uint8).data
    return {
        int(blocks[start]): hashlib.sha256(
            records[start * _RECORD_BYTES : stop * _RECORD_BYTES]
        ).digest()
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    }


def _records(entries: Entries) -> NDArray[Any]:
    if is_compiled(len(entries)):
        from dealfl.exact.byte_loops import PADDING, write_records

        out = np.empty(len(entries) * _RECORD_BYTES + PADDING, dtype=np.uint8)
        write_records(entries.indices, *entries.values.parts, BLOCK - 1, out)
        return out
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
    parts = (block.to_bytes(8, "little") + hashes[block] for block in sorted(hashes))
    return hashlib.sha256(b"".join(parts)).digest()


@lru_cache(maxsize=64)  # a server compares the same model again and again
def whole_digest(settings: bytes, arrays: tuple[tuple[str, bytes], ...]) -> str:
    """Return the digest of statistics from their schema and the digests of their arrays.

    Parameters
    ----------
    settings : bytes
        Canonical bytes of the schema.
    arrays : tuple of (str, bytes)
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
