"""Statistics: the integers that determine a model. They form a group.

a + b        the statistics of both sets of examples
a - b, -a    the statistics after forgetting
a == b       equal bit for bit
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import encoding
from dealfl.exact.compiled import is_compiled
from dealfl.exact.digests import array_digest, block_hashes, whole_digest
from dealfl.exact.entries import Entries
from dealfl.exact.integers import Integers
from dealfl.exact.schema import ArraySpec, Schema
from dealfl.exact.seeded import round_keys, words

__all__ = ["ArraySpec", "Deferred", "Schema", "Statistics"]

_PRIME = (1 << 61) - 1
_AT_ONCE = 1 << 14  # values whose keys stay in the cache


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
        empty = np.empty(0, dtype=np.int64)
        arrays = {spec.name: Entries(empty, Integers.zeros(0, spec.wide)) for spec in schema.arrays}
        return cls(schema, arrays)

    @classmethod
    def from_bytes(
        cls, data: bytes, max_bytes: int = encoding.MAX_BYTES, *, trusted: bool = False
    ) -> Statistics:
        """Read statistics that `to_bytes` wrote.

        Parameters
        ----------
        data : bytes
            Canonical bytes.
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
        return cls(*encoding.decode(data, max_bytes, trusted=trusted))

    def to_bytes(self) -> bytes:
        """Return canonical bytes: equal statistics give equal bytes; see `encoding`."""
        return encoding.encode(self.schema, self.arrays)

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
        held = ", ".join(f"{name}: {len(self.arrays[name])}" for name in self.arrays)
        return f"<Statistics of {self.schema.learner}, non-zeros in {held}>"

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
        for place, name in enumerate(self):
            entries, secrets = self.arrays[name], round_keys(seed, place)
            total += _sum_products(entries, secrets)
        return total % _PRIME


def _sum_products(entries: Entries, secrets: tuple[int, int]) -> int:
    """Return a number that is Σ value · key(index) modulo 2⁶¹ − 1; keys are below 2⁶¹."""
    if is_compiled(len(entries)):
        from dealfl.exact.exact_loops import add_products

        one, two = map(np.uint64, secrets)
        return int(add_products(*entries.values.parts, entries.indices, one, two))
    total = 0
    for first in range(0, len(entries), _AT_ONCE):
        values = entries.values[first : first + _AT_ONCE]
        keys = words(secrets, entries.indices[first : first + _AT_ONCE].astype(np.uint64))
        keys >>= np.uint64(3)
        total += _dot(values.low, keys)
        total += 0 if values.high is None else _dot(values.high, keys) << 32
    return total


def _dot(values: NDArray[np.int64], keys: NDArray[np.uint64]) -> int:
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
    """Arrays of statistics that are computed when one of them is first read.

    Parameters
    ----------
    schema : Schema
        Schema of the statistics.
    compute : callable
        Returns the arrays; it keeps what it needs.
    """

    __slots__ = ("_arrays", "_compute", "_schema")

    def __init__(self, schema: Schema, compute: Callable[[], Mapping[str, Entries]]) -> None:
        self._schema, self._compute = schema, compute
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
