"""One array of integers as canonical bytes, and its digest.

Bytes: count u64, layout u8, gap width u8, value width u8, body. Layout 0 lists the gaps between the
indices of non-zeros, then their values. Layout 1 lists every value. The writer chooses the smaller
one. Numbers are little-endian and use the fewest bytes that hold the largest one. The reader is for
untrusted input: it checks sizes against the limits before it allocates memory.

Digest: the array is divided into blocks of 4,096 indices. The hash of a block covers its non-zeros,
as offset and 128-bit signed value, so it does not depend on dense or sparse storage or on the width
of the integers. An empty block has no hash. Two digests are equal if and only if the non-zeros are.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes
from dealfl.exact.compiled import twin
from dealfl.exact.entries import ArraySpec, Entries
from dealfl.exact.integers import LOW_BITS, LOW_MASK, WORD_BYTES, Int64s, to_words, unset

BLOCK = 4096
MAX_SIZE = 1 << 62  # indices and their gaps stay well inside 64 bits

PADDING = 16  # bytes after the end of a buffer that a compiled loop may overwrite
_SHAPE = struct.Struct("<QBBB")
_SPARSE, _DENSE = 0, 1
_RECORD_BYTES = 2 + WORD_BYTES

Bytes = NDArray[np.uint8]
Shape = tuple[int, int, int, int]


def encode_array(spec: ArraySpec, entries: Entries) -> tuple[bytes, memoryview]:
    """Return the canonical bytes of an array, in two parts."""
    shape = _shape_of(spec, entries)
    _, layout, gap_width, width = shape
    if layout == _DENSE:
        values, gap_width = entries.dense(spec.size), 0
    else:
        values = entries.values
    size = len(entries) * gap_width + len(values) * width
    body = np.empty(size + PADDING, dtype=np.uint8)
    write_body(entries.indices, *values.parts, gap_width, width, body)
    return _SHAPE.pack(*shape), body[:size].data


def _shape_of(spec: ArraySpec, entries: Entries) -> Shape:
    """Return count, layout, gap width and value width: what the writer chooses for entries."""
    gap, upper, lower = find_longest(entries.indices, *entries.values.parts)
    bits = int(LOW_BITS) + upper.bit_length() if upper else lower.bit_length()
    gap_width, width = max(1, (gap.bit_length() + 7) // 8), bits // 8 + 1
    is_sparse = len(entries) * (gap_width + width) <= spec.size * width
    return len(entries), _SPARSE if is_sparse else _DENSE, gap_width, width


@twin
def find_longest(indices: Int64s, low: Int64s, high: Int64s) -> tuple[int, int, int]:
    """Return the largest gap, and the largest high and low part of a value without its sign."""
    gap = int(_gaps_of(indices).max(initial=0))
    sign = (high if len(high) else low) >> np.int64(63)
    if not len(high):
        return gap, 0, int((low ^ sign).max(initial=0))
    lower = low ^ (sign & LOW_MASK)
    return gap, int((high ^ sign).max()), int(lower.max())


@twin
def write_body(
    indices: Int64s, low: Int64s, high: Int64s, gap_width: int, width: int, out: Bytes
) -> None:
    """Write the gaps between indices, unless they have no width, and values."""
    first = len(indices) * gap_width
    if gap_width:
        out[:first] = _first_bytes(_bytes_of(_gaps_of(indices)), gap_width)
    values = to_words(low, high) if len(high) else _bytes_of(low)
    out[first : first + len(low) * width] = _first_bytes(values, width)


def _gaps_of(indices: Int64s) -> Int64s:
    gaps = indices.copy()
    gaps[1:] -= indices[:-1] + 1
    return gaps


def _bytes_of(numbers: Int64s) -> Bytes:
    return np.ascontiguousarray(numbers, "<i8").view(np.uint8).reshape(-1, 8)


def _first_bytes(rows: Bytes, width: int) -> Bytes:
    """Return the lowest bytes of each number."""
    return rows.view(f"V{rows.shape[1]}").astype(f"V{width}").view(np.uint8).reshape(-1)


@dataclass(slots=True)
class Reader:
    """A cursor over bytes that never reads past their end."""

    data: memoryview
    position: int = 0

    def take(self, count: int, what: str) -> memoryview:
        """Return the next bytes."""
        left = len(self.data) - self.position
        if count > left:
            raise BadBytes(f"statistics are truncated: {what} needs {count} bytes, {left} are left")
        self.position += count
        return self.data[self.position - count : self.position]

    def numbers(self, count: int, width: int, what: str) -> Bytes:
        """Return the bytes of the next numbers."""
        return np.frombuffer(self.take(count * width, what), dtype=np.uint8)


def decode_array(reader: Reader, spec: ArraySpec, max_bytes: int, trusted: bool) -> Entries:
    """Read an array that `encode_array` wrote; bytes in another form are refused unless trusted."""
    shape = count, layout, gap_width, width = _SHAPE.unpack(reader.take(_SHAPE.size, spec.name))
    if not (1 <= gap_width <= 8 and 1 <= width <= spec.bits // 8 and layout in (_SPARSE, _DENSE)):
        raise BadBytes(
            f"array {spec.name!r} has layout {layout} and widths {gap_width} and {width}; "
            "the bytes are damaged"
        )
    stored = count if layout == _SPARSE else spec.size
    value_bytes = 16 if spec.wide else 8
    if count > spec.size or stored * (8 + value_bytes) > max_bytes:
        raise BadBytes(
            f"array {spec.name!r} has {count} values in {spec.size} cells; the memory limit is "
            f"{max_bytes} bytes: raise max_bytes to allow more"
        )
    if layout == _SPARSE:
        gaps = reader.numbers(count, gap_width, spec.name)
        indices = np.empty(count, dtype=np.int64)
        if not read_gaps(gaps, gap_width, spec.size, indices):
            raise BadBytes(f"array {spec.name!r} has an index outside its {spec.size} integers")
    data = reader.numbers(stored, width, spec.name)
    values = unset(stored, spec.wide)
    nonzero = read_values(data, width, *values.parts)
    if layout == _SPARSE and nonzero != count:
        raise BadBytes(f"array {spec.name!r} stores a zero; only non-zero values are allowed")
    entries = Entries(indices, values) if layout == _SPARSE else Entries.of_dense(values)
    if not trusted and _shape_of(spec, entries) != shape:
        raise BadBytes("statistics are not in canonical form")
    return entries


@twin
def read_gaps(data: Bytes, width: int, size: int, indices: Int64s) -> bool:
    """Read indices from the gaps between them; return whether all are below `size`."""
    rows = np.zeros((len(indices), 8), dtype=np.uint8)
    rows[:, :width] = data.reshape(-1, width)
    gaps = rows.view("<u8").reshape(-1).astype(np.uint64)
    sums = np.cumsum(gaps + np.uint64(1)) - np.uint64(1)
    indices[:] = sums.astype(np.int64)
    wrapped = np.any(gaps >= MAX_SIZE) or np.any(sums[1:] <= sums[:-1])
    return not (wrapped or np.any(sums >= size))


@twin
def read_values(data: Bytes, width: int, low: Int64s, high: Int64s) -> int:
    """Read the parts of values; return how many of them are not zero."""
    given = data.reshape(-1, width)
    rows = np.repeat((given[:, -1:] >> 7) * np.uint8(255), WORD_BYTES, axis=1)
    rows[:, :width] = given
    halves = rows.view("<i8").astype(np.int64)
    first, second = halves[:, 0], halves[:, 1]
    low[:] = first & LOW_MASK if len(high) else first
    if len(high):
        high[:] = ((first >> LOW_BITS) & LOW_MASK) + (second << LOW_BITS)
    return int(np.count_nonzero(first | second))


def block_hashes(entries: Entries) -> dict[int, bytes]:
    """Return the hash of each block that holds an entry, by block number.

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
    records = np.empty(len(entries) * _RECORD_BYTES + PADDING, dtype=np.uint8)
    write_records(entries.indices, *entries.values.parts, BLOCK - 1, records)
    data = records.data
    return {
        int(blocks[start]): hashlib.sha256(
            data[start * _RECORD_BYTES : stop * _RECORD_BYTES]
        ).digest()
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    }


@twin
def write_records(indices: Int64s, low: Int64s, high: Int64s, mask: int, out: Bytes) -> None:
    """Write the masked index and the value of each entry in two and sixteen bytes."""
    records = out[: len(indices) * _RECORD_BYTES].reshape(-1, _RECORD_BYTES)
    records[:, :2] = (indices & mask).astype("<u2").view(np.uint8).reshape(-1, 2)
    records[:, 2:] = to_words(low, high)


def array_digest(hashes: Mapping[int, bytes]) -> bytes:
    """Return the SHA-256 of block numbers and hashes, in ascending order."""
    parts = (block.to_bytes(8, "little") + hashes[block] for block in sorted(hashes))
    return hashlib.sha256(b"".join(parts)).digest()
