"""Statistics as bytes: one canonical form, and a reader for untrusted input.

    "DEALSTAT", version u16, header length u32, header (the schema as canonical JSON),
    then for each array of the schema: count u64, layout u8, gap width u8, value width u8, body.

Layout 0 lists the gaps between the indices of non-zeros, then their values. Layout 1 lists every
value. The writer chooses the smaller one. Numbers are little-endian and use the fewest bytes that
hold the largest one. Sizes are checked against the limits before memory is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes
from dealfl.exact.compiled import is_compiled
from dealfl.exact.entries import Entries
from dealfl.exact.integers import LOW_BITS, LOW_MASK, WORD_BYTES, Integers, unset
from dealfl.exact.schema import ArraySpec, Schema

__all__ = ["MAX_BYTES", "decode", "encode"]

MAX_BYTES = 1 << 28  # memory of decoded arrays; callers can set another limit
MAX_HEADER_BYTES = 1 << 22
_SMALL_HEADER_BYTES = 1 << 16  # a header of this size is always read
_REMEMBERED_BYTES = 1 << 12  # a header up to this size is kept in memory
MAX_ARRAYS = 64
MAX_SIZE = 1 << 62  # indices and their gaps stay well inside 64 bits

_MAGIC = b"DEALSTAT"
_VERSION = 1
_PREFIX = struct.Struct("<8sHI")
_ARRAY = struct.Struct("<QBBB")
_SPARSE, _DENSE = 0, 1

Bytes2D = NDArray[np.uint8]
Shape = tuple[int, int, int, int]


def encode(schema: Schema, arrays: Mapping[str, Entries]) -> bytes:
    """Return the canonical bytes of statistics.

    Parameters
    ----------
    schema : Schema
        Schema of the statistics.
    arrays : mapping of str to Entries
        The non-zero values of each array of the schema.

    Returns
    -------
    bytes
        Equal statistics give equal bytes.
    """
    header = schema.canonical()
    parts: list[bytes | memoryview] = [_PREFIX.pack(_MAGIC, _VERSION, len(header)), header]
    for spec in schema.arrays:
        shape = _shape_of(spec, arrays[spec.name])
        parts += [_ARRAY.pack(*shape), _body_of(spec, arrays[spec.name], shape)]
    return b"".join(parts)


def _shape_of(spec: ArraySpec, entries: Entries) -> Shape:
    """Return count, layout, gap width and value width: what the writer chooses for entries."""
    if is_compiled(len(entries)):
        from dealfl.exact.exact_loops import find_bits, find_gap_bits

        gap_bits = find_gap_bits(entries.indices).bit_length()
        upper, lower = find_bits(*entries.values.parts)
        bits = LOW_BITS + upper.bit_length() if upper else lower.bit_length()
    else:
        has_gaps = len(entries) < spec.size
        gap_bits = int(_gaps_of(entries).max(initial=0)).bit_length() if has_gaps else 0
        bits = _find_bits(entries.values)
    gap_width, width = max(1, (gap_bits + 7) // 8), int(bits) // 8 + 1
    is_sparse = len(entries) * (gap_width + width) <= spec.size * width
    return len(entries), _SPARSE if is_sparse else _DENSE, gap_width, width


def _body_of(spec: ArraySpec, entries: Entries, shape: Shape) -> bytes | memoryview:
    """Return the bytes of gaps and values, or of all values."""
    count, layout, gap_width, width = shape
    values = entries.values if layout == _SPARSE else entries.dense(spec.size)
    if is_compiled(count):
        from dealfl.exact.byte_loops import PADDING, write_gaps, write_values

        gaps = count * gap_width if layout == _SPARSE else 0
        out = np.empty(gaps + len(values) * width + PADDING, dtype=np.uint8)
        if layout == _SPARSE:
            write_gaps(entries.indices, gap_width, out)
        write_values(*values.parts, gaps, width, out)
        return out[:-PADDING].data
    words = _words_of(values.low) if values.high is None else values.words()
    if layout == _SPARSE:
        return _first_bytes(_words_of(_gaps_of(entries)), gap_width) + _first_bytes(words, width)
    return _first_bytes(words, width)


def _words_of(numbers: NDArray[np.int64]) -> Bytes2D:
    return np.ascontiguousarray(numbers, "<i8").view(np.uint8).reshape(-1, 8)


def _first_bytes(words: Bytes2D, width: int) -> bytes:
    """Return the lowest bytes of each number."""
    return words.view(f"V{words.shape[1]}").astype(f"V{width}").tobytes()


def _gaps_of(entries: Entries) -> NDArray[np.int64]:
    gaps = entries.indices.copy()
    gaps[1:] -= entries.indices[:-1] + 1
    return gaps


def _find_bits(values: Integers) -> int:
    """Return the number of bits of the longest value, without its sign."""
    sign = (values.low if values.high is None else values.high) >> np.int64(63)
    if values.high is None:
        return int((values.low ^ sign).max(initial=0)).bit_length()
    if top := int((values.high ^ sign).max(initial=0)):
        return int(LOW_BITS) + top.bit_length()
    return int((values.low ^ (sign & LOW_MASK)).max(initial=0)).bit_length()


@dataclass(slots=True)
class _Reader:
    """A cursor over bytes that never reads past their end."""

    data: memoryview
    position: int = 0

    def take(self, count: int, what: str) -> memoryview:
        left = len(self.data) - self.position
        if count > left:
            raise BadBytes(f"statistics are truncated: {what} needs {count} bytes, {left} are left")
        self.position += count
        return self.data[self.position - count : self.position]

    def matrix(self, rows: int, width: int, what: str) -> Bytes2D:
        data = self.take(rows * width, what)
        return np.frombuffer(data, dtype=np.uint8).reshape(rows, width)


def decode(
    data: bytes, max_bytes: int, *, trusted: bool = False
) -> tuple[Schema, dict[str, Entries]]:
    """Read statistics that `encode` wrote.

    Parameters
    ----------
    data : bytes
        Canonical bytes, possibly from an untrusted sender.
    max_bytes : int
        Memory limit of the decoded arrays, in bytes.
    trusted : bool
        Whether `encode` is known to have written the bytes; their form is not checked then.

    Returns
    -------
    schema : Schema
        Schema of the statistics.
    arrays : dict of str to Entries
        The non-zero values of each array.

    Raises
    ------
    BadBytes
        The bytes are truncated, damaged, not canonical, or need more than `max_bytes`.
    """
    reader = _Reader(memoryview(data))
    schema = _decode_schema(reader, max_bytes)
    arrays: dict[str, Entries] = {}
    left = max_bytes
    for spec in schema.arrays:
        arrays[spec.name] = _decode_array(reader, spec, left, trusted)
        left -= arrays[spec.name].nbytes
    if reader.position != len(data):
        raise BadBytes(f"{len(data) - reader.position} extra bytes follow the statistics")
    return schema, arrays


def _decode_schema(reader: _Reader, max_bytes: int) -> Schema:
    magic, version, length = _PREFIX.unpack(reader.take(_PREFIX.size, "the prefix"))
    if magic != _MAGIC:
        raise BadBytes(f"not statistics: the bytes start with {bytes(magic)!r}, not {_MAGIC!r}")
    if version != _VERSION:
        raise BadBytes(
            f"statistics have format {version}; this dealfl reads format {_VERSION}: "
            "use the same version of dealfl on both sides"
        )
    most = min(MAX_HEADER_BYTES, max(max_bytes, _SMALL_HEADER_BYTES))
    if length > most:
        raise BadBytes(f"the header of the statistics has {length} bytes; the limit is {most}")
    parse = _parse_schema if length <= _REMEMBERED_BYTES else _parse_schema.__wrapped__
    return parse(bytes(reader.take(length, "the header")))


@lru_cache(maxsize=64)  # a server receives the same header again and again
def _parse_schema(header: bytes) -> Schema:
    try:
        schema = msgspec.json.decode(header, type=Schema)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadBytes(f"the header of the statistics cannot be read: {error}") from None
    _require_sane(schema)
    if schema.canonical() != header:
        raise BadBytes("statistics are not in canonical form")
    return schema


def _require_sane(schema: Schema) -> None:
    names = [spec.name for spec in schema.arrays]
    if len(names) > MAX_ARRAYS or len(set(names)) != len(names):
        raise BadBytes(
            f"statistics have {len(names)} arrays; the limit is {MAX_ARRAYS} with distinct names"
        )
    for spec in schema.arrays:
        if not 0 <= spec.size <= MAX_SIZE or spec.bits not in (32, 64, 96):
            raise BadBytes(
                f"array {spec.name!r} has {spec.size} integers of {spec.bits} bits; the limit is "
                f"{MAX_SIZE} integers of 32, 64 or 96 bits"
            )


def _decode_array(reader: _Reader, spec: ArraySpec, max_bytes: int, trusted: bool) -> Entries:
    shape = count, layout, gap_width, width = _ARRAY.unpack(reader.take(_ARRAY.size, spec.name))
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
    if layout == _DENSE:
        cells, _ = _decode_values(reader.matrix(spec.size, width, spec.name), spec)
        entries = Entries.of_dense(cells)
    else:
        indices = _decode_indices(reader.matrix(count, gap_width, spec.name), spec)
        values, nonzero = _decode_values(reader.matrix(count, width, spec.name), spec)
        if nonzero != count:
            raise BadBytes(f"array {spec.name!r} stores a zero; only non-zero values are allowed")
        entries = Entries(indices, values)
    if not trusted and _shape_of(spec, entries) != shape:
        raise BadBytes("statistics are not in canonical form")
    return entries


def _decode_indices(gap_bytes: Bytes2D, spec: ArraySpec) -> NDArray[np.int64]:
    indices = np.empty(len(gap_bytes), dtype=np.int64)
    if is_compiled(len(gap_bytes)):
        from dealfl.exact.byte_loops import read_gaps

        inside = read_gaps(gap_bytes.reshape(-1), gap_bytes.shape[1], spec.size, indices)
    else:
        padded = np.zeros((len(gap_bytes), 8), dtype=np.uint8)
        padded[:, : gap_bytes.shape[1]] = gap_bytes
        gaps = padded.view("<u8").reshape(-1).astype(np.uint64)
        found = np.cumsum(gaps + np.uint64(1)) - np.uint64(1)
        wrapped = np.any(gaps >= MAX_SIZE) or np.any(found[1:] <= found[:-1])
        inside = not wrapped and not np.any(found >= spec.size)
        indices = found.astype(np.int64)
    if not inside:
        raise BadBytes(f"array {spec.name!r} has an index outside its {spec.size} integers")
    return indices


def _decode_values(value_bytes: Bytes2D, spec: ArraySpec) -> tuple[Integers, int]:
    """Return values, and how many of them are not zero."""
    if is_compiled(len(value_bytes)):
        from dealfl.exact.byte_loops import read_values

        values = unset(len(value_bytes), spec.wide)
        width = value_bytes.shape[1]
        return values, read_values(value_bytes.reshape(-1), width, *values.parts)
    sign = value_bytes[:, -1:] >> 7
    words = np.repeat(sign * np.uint8(255), WORD_BYTES, axis=1)
    words[:, : value_bytes.shape[1]] = value_bytes
    values = Integers.from_words(words, spec.wide)
    return values, len(values.nonzero())
