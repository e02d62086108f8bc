"""Statistics: the integers that determine a model. They form a group.

a + b        the statistics of both sets of examples
a - b, -a    the statistics after forgetting
a == b       equal bit for bit

As canonical bytes: "DEALSTAT", version u16, header length u32, header (the schema as canonical
JSON), then each array of the schema as in `encoding`. Equal statistics have equal bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes, Incompatible
from dealfl.exact.compiled import twin
from dealfl.exact.encoding import (
    MAX_SIZE,
    Reader,
    array_digest,
    block_hashes,
    decode_array,
    encode_array,
)
from dealfl.exact.entries import ArraySpec, Entries
from dealfl.exact.integers import Int64s
from dealfl.exact.seeded import round_keys, words

MAX_BYTES = 1 << 28  # memory of decoded arrays; callers can set another limit
MAX_HEADER_BYTES = 1 << 22
MAX_ARRAYS = 64
_SMALL_HEADER_BYTES = 1 << 16  # a header of this size is always read
_REMEMBERED_BYTES = 1 << 12  # a header up to this size is kept in memory

_MAGIC = b"DEALSTAT"
_VERSION = 1
_PREFIX = struct.Struct("<8sHI")
_PRIME = (1 << 61) - 1
_AT_ONCE = 1 << 14  # values whose keys stay in the cache

Setting = bool | int | float | str | None | list[bool | int | float | str]


class Schema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What two sets of statistics must have in common to be added.

    Settings that shape only the model, such as a penalty, a solver or k, are not part of it.
    """

    learner: str
    settings: dict[str, Setting]
    arrays: tuple[ArraySpec, ...]

    def canonical(self) -> bytes:
        """Return canonical JSON: equal for equal schemas, in whatever order their settings are."""
        return msgspec.json.encode(self, order="deterministic")

    def digest(self) -> str:
        """Return the SHA-256 by which a worker and the server compare their schemas."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def require_same(self, other: Schema) -> None:
        """Raise `Incompatible`, with the first difference, if another schema is not equal.

        Parameters
        ----------
        other
            The schema to compare with.

        Examples
        --------
        >>> Schema("a", {"bits": 8}, ()).require_same(Schema("a", {"bits": 9}, ()))
        Traceback (most recent call last):
        dealfl.errors.Incompatible: the statistics have bits = 9, but this model has bits = 8; ...
        """
        if not self.same(other):
            raise Incompatible(_difference(self, other))

    def same(self, other: Schema) -> bool:
        """Return whether two schemas have the same canonical bytes; 1 and 1.0 differ.

        Parameters
        ----------
        other
            The schema to compare with.

        Returns
        -------
        bool
            Whether they are equal.
        """
        return other is self or other.canonical() == self.canonical()


def _difference(ours: Schema, theirs: Schema) -> str:
    if ours.learner != theirs.learner:
        return f"statistics of learner {theirs.learner} cannot be used by learner {ours.learner}"
    for name in sorted(ours.settings.keys() | theirs.settings.keys()):
        here, there = _shown(ours, name), _shown(theirs, name)
        if here != there:
            return (
                f"the statistics have {name} = {there}, but this model has {name} = {here}; "
                "both must come from the same job"
            )
    return f"the statistics have arrays {theirs.arrays!r}, but this model has {ours.arrays!r}"


def _shown(schema: Schema, name: str) -> str:
    return repr(schema.settings[name]) if name in schema.settings else "not set"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Statistics:
    """Named arrays of integers of one learner: the only data that is sent or stored.

    Only non-zero values are held, by ascending index, so no trace of forgotten data remains.

    Parameters
    ----------
    schema : Schema
        Learner, settings and arrays.
    arrays : mapping of str to Entries
        The non-zero values of each array of the schema.

    Examples
    --------
    >>> schema = Schema("counter", {}, (ArraySpec("counts", 1000),))
    >>> one = Statistics(schema, {"counts": Entries.of({7: 1})})
    >>> (one + one)["counts"].to_dict(), (one - one).is_zero
    ({7: 2}, True)
    """

    schema: Schema
    arrays: Mapping[str, Entries]

    @classmethod
    def zero(cls, schema: Schema) -> Statistics:
        """Return the statistics of no examples.

        Parameters
        ----------
        schema : Schema
            Schema of the statistics.

        Returns
        -------
        Statistics
            Statistics in which every value is 0.
        """
        return cls(schema, {spec.name: Entries.of({}, spec.wide) for spec in schema.arrays})

    @classmethod
    def from_bytes(
        cls, data: bytes, max_bytes: int = MAX_BYTES, *, trusted: bool = False
    ) -> Statistics:
        """Read statistics that `to_bytes` wrote.

        Parameters
        ----------
        data : bytes
            Canonical bytes, possibly from an untrusted sender.
        max_bytes : int, default 268435456
            Memory limit of the decoded arrays, in bytes.
        trusted : bool
            Whether `to_bytes` is known to have written the bytes; their form is not checked then.

        Returns
        -------
        Statistics
            The decoded statistics.

        Raises
        ------
        BadBytes
            The bytes are truncated, damaged, not canonical, or need more than `max_bytes`.
        """
        reader = Reader(memoryview(data))
        schema = _read_schema(reader, max_bytes)
        arrays: dict[str, Entries] = {}
        left = max_bytes
        for spec in schema.arrays:
            arrays[spec.name] = decode_array(reader, spec, left, trusted)
            left -= arrays[spec.name].nbytes
        if reader.position != len(data):
            raise BadBytes(f"{len(data) - reader.position} extra bytes follow the statistics")
        return cls(schema, arrays)

    def to_bytes(self) -> bytes:
        """Return canonical bytes: equal statistics give equal bytes."""
        header = self.schema.canonical()
        parts: list[bytes | memoryview] = [_PREFIX.pack(_MAGIC, _VERSION, len(header)), header]
        for spec in self.schema.arrays:
            parts += encode_array(spec, self.arrays[spec.name])
        return b"".join(parts)

    def __getitem__(self, name: str) -> Entries:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __neg__(self) -> Statistics:
        return Statistics(self.schema, {name: -self.arrays[name] for name in self.arrays})

    def __add__(self, other: Statistics) -> Statistics:
        self.schema.require_same(other.schema)
        arrays = {name: self.arrays[name] + other.arrays[name] for name in self.arrays}
        for spec in self.schema.arrays:
            spec.require_fit(arrays[spec.name].values)
        return Statistics(self.schema, arrays)

    def __sub__(self, other: Statistics) -> Statistics:
        return self + -other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Statistics):
            return NotImplemented
        return self.schema.same(other.schema) and all(
            self.arrays[name].same(other.arrays[name]) for name in self.arrays
        )

    __hash__ = None  # type: ignore[assignment]  # compared by value, too large to hash

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {len(self.arrays[name])}" for name in self.arrays)
        return f"<Statistics of {self.schema.learner}, non-zeros in {counts}>"

    @property
    def is_zero(self) -> bool:
        """Whether every value is 0."""
        return self.count_nonzero() == 0

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return sum(entries.nbytes for entries in self.arrays.values())

    def count_nonzero(self) -> int:
        """Return the number of values that are not 0."""
        return sum(len(entries) for entries in self.arrays.values())

    def digest(self) -> str:
        """Return a SHA-256 that is equal if and only if schema and values are equal."""
        digests = ((name, array_digest(block_hashes(self.arrays[name]))) for name in self.arrays)
        return whole_digest(self.schema.canonical(), tuple(digests))

    def fingerprint(self, seed: int) -> int:
        """Return Σ value · key(array, index) modulo 2⁶¹ − 1, with secret keys.

        It is additive: the fingerprint of a sum is the sum of the fingerprints. Two statistics that
        differ have the same fingerprint with a probability of about 2⁻⁶¹.

        Parameters
        ----------
        seed : int
            Secret from which the keys are derived.

        Returns
        -------
        int
            A number below 2⁶¹ − 1.
        """
        total = 0
        for number, name in enumerate(self):
            entries = self.arrays[name]
            first, second = map(np.uint64, round_keys(seed, number))
            total += int(sum_products(*entries.values.parts, entries.indices, first, second))
        return total % _PRIME


def _read_schema(reader: Reader, max_bytes: int) -> Schema:
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
    if schema.canonical() != header:
        raise BadBytes("statistics are not in canonical form")
    return schema


@lru_cache(maxsize=64)  # a server compares the same model again and again
def whole_digest(settings: bytes, arrays: tuple[tuple[str, bytes], ...]) -> str:
    """Return the digest of statistics from canonical settings and the digests of their arrays."""
    whole = hashlib.sha256(b"dealfl statistics 1\0")
    whole.update(hashlib.sha256(settings).digest())
    for name, digest in sorted(arrays):
        whole.update(hashlib.sha256(name.encode()).digest())
        whole.update(digest)
    return whole.hexdigest()


@twin
def sum_products(
    low: Int64s, high: Int64s, indices: Int64s, secret: np.uint64, second: np.uint64
) -> int:
    """Return Σ value · key(index) modulo 2⁶¹ − 1; keys are below 2⁶¹."""
    total = 0
    for first in range(0, len(indices), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        keys = words((int(secret), int(second)), indices[part].astype(np.uint64))
        keys >>= np.uint64(3)
        total += _dot(low[part], keys)
        if len(high):
            total += _dot(high[part], keys) << 32
    return total % _PRIME


def _dot(values: Int64s, keys: NDArray[np.uint64]) -> int:
    low32, shift = np.uint64(0xFFFF_FFFF), np.uint64(32)
    value = np.mod(values, _PRIME).astype(np.uint64)
    high = (value >> shift) * (keys >> shift)
    middle = (value >> shift) * (keys & low32) + (value & low32) * (keys >> shift)
    low = (value & low32) * (keys & low32)
    # 2⁶⁴ = 8 and 2⁶¹ = 1 modulo the prime
    product = (high << np.uint64(3)) + (middle >> np.uint64(29)) + (low >> np.uint64(61))
    product += ((middle & np.uint64((1 << 29) - 1)) << shift) + (low & np.uint64(_PRIME))
    return int((product & low32).sum()) + (int((product >> shift).sum()) << 32)


class Deferred(Mapping[str, Entries]):
    """Arrays of statistics that a function computes when one of them is first read."""

    __slots__ = ("_arrays", "_compute", "_schema")

    def __init__(self, schema: Schema, compute: Callable[[], Mapping[str, Entries]]) -> None:
        self._schema = schema
        self._compute = compute
        self._arrays: Mapping[str, Entries] | None = None

    def __getitem__(self, name: str) -> Entries:
        if self._arrays is None:
            self._arrays = self._compute()
            self._compute = dict
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return (spec.name for spec in self._schema.arrays)

    def __len__(self) -> int:
        return len(self._schema.arrays)

    def __reduce__(self) -> tuple[type[dict[str, Entries]], tuple[dict[str, Entries]]]:
        return dict, (dict(self),)  # copies and pickles hold the arrays
