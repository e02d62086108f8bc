"""Statistics as dense vectors modulo 2^bits of each array, in which masks are added.

A vector is bytes: first all words of 64 bits (arrays of 64 bits, and the high parts of arrays of 96
bits), then all words of 32 bits (arrays of 32 bits, and the low parts of arrays of 96 bits).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput
from dealfl.exact import ArraySpec, Entries, Integers, Schema, Statistics

MAX_MASKED_BYTES = 1 << 20
_LOW = np.int64(0xFFFF_FFFF)
_SHIFT = np.int64(32)

Longs = NDArray[np.uint64]
Words = NDArray[np.uint32]


class Ring:
    """The group of all vectors of a schema, modulo 2^bits of each array.

    Examples
    --------
    >>> schema = Schema("counter", {}, (ArraySpec("counts", 2, 32),))
    >>> ring = Ring(schema)
    >>> minus = ring.vector(Statistics(schema, {"counts": Entries.of({1: -3})}))
    >>> ring.statistics(minus)["counts"].to_dict(), len(minus)
    ({1: -3}, 8)
    """

    def __init__(self, schema: Schema, bits: int | None = None) -> None:
        """`bits` that every sum fits, with its sign; only as many bytes of a value are sent."""
        self.schema = schema
        widest = max((spec.bits for spec in schema.arrays), default=0)
        self._kept = -(-min(bits or widest, widest) // 8)
        self._places: list[tuple[ArraySpec, slice, slice]] = []  # of its words of 64 and 32 bits
        longs = words = 0
        for spec in schema.arrays:
            more_longs = spec.size if spec.bits > 32 else 0
            more_words = 0 if spec.bits == 64 else spec.size
            place = slice(longs, longs + more_longs), slice(words, words + more_words)
            self._places.append((spec, *place))
            longs += more_longs
            words += more_words
        self.longs = longs
        self.words = words
        self.size_bytes = 8 * longs + 4 * words

    @cached_property
    def carries(self) -> list[tuple[slice, slice]]:
        """Where the low words of wide arrays carry to: words of 64 bits, words of 32 bits."""
        return [(longs, words) for spec, longs, words in self._places if spec.wide]

    def require_small(self) -> None:
        """Refuse statistics that are too large to be sent as dense vectors."""
        if self.size_bytes > MAX_MASKED_BYTES:
            raise BadInput(
                f"statistics of {self.schema.learner} take {self.size_bytes:,} bytes as a dense "
                f"vector; masked sums support up to {MAX_MASKED_BYTES:,}: use fewer features or "
                "items, or remove the section [privacy]"
            )

    def vector(self, statistics: Statistics) -> bytes:
        """Return statistics as a vector."""
        longs = np.zeros(self.longs, dtype=np.uint64)
        words = np.zeros(self.words, dtype=np.uint32)
        for spec, at_longs, at_words in self._places:
            values = statistics[spec.name].dense(spec.size)
            if values.high is not None:
                longs[at_longs] = values.high.view(np.uint64)
                words[at_words] = values.low.astype(np.uint32)
            elif spec.bits == 64:
                longs[at_longs] = values.low.astype(np.int64, copy=False).view(np.uint64)
            else:
                words[at_words] = values.low.astype(np.uint32)
        return longs.tobytes() + words.tobytes()

    def statistics(self, vector: bytes) -> Statistics:
        """Return the statistics of a vector: each value is the one nearest to zero."""
        longs, words = self.split(vector)
        arrays = {}
        for spec, at_longs, at_words in self._places:
            unused = 8 * (spec.bits // 8 - self._kept_bytes(spec))  # bits that were not sent
            high = (longs[at_longs].view(np.int64) << unused) >> unused
            if spec.wide:
                values = Integers(words[at_words].astype(np.int64), high)
            elif spec.bits == 64:
                values = Integers(high)
            else:
                low = (words[at_words].view(np.int32) << unused) >> unused
                values = Integers(low.astype(np.int64))
            arrays[spec.name] = Entries.of_dense(values)
        return Statistics(self.schema, arrays)

    def split(self, vector: bytes | bytearray | memoryview) -> tuple[Longs, Words]:
        """Return the words of a vector, not copied."""
        if len(vector) != self.size_bytes:
            raise BadBytes(
                f"a vector has {len(vector)} bytes; one of this job has {self.size_bytes}"
            )
        longs = np.frombuffer(vector, dtype=np.uint64, count=self.longs)
        words = np.frombuffer(vector, dtype=np.uint32, offset=8 * self.longs)
        return longs, words

    def _kept_bytes(self, spec: ArraySpec) -> int:
        """Return how many bytes of a value are sent; of a wide one at least five."""
        return min(max(self._kept, 5 if spec.wide else 1), spec.bits // 8)

    @property
    def packed_bytes(self) -> int:
        """Size of a vector as it is sent."""
        return sum(spec.size * self._kept_bytes(spec) for spec, _, _ in self._places)

    def pack(self, vector: bytes) -> bytes:
        """Return a vector without the high bytes that no sum needs."""
        if self.packed_bytes == self.size_bytes:
            return vector
        return b"".join(
            part[:, :kept].tobytes() for part, kept in self._columns(*self.split(vector))
        )

    def unpack(self, packed: bytes) -> bytes:
        """Return a vector with zeros in place of the bytes that were not sent."""
        if self.packed_bytes == self.size_bytes:
            return packed
        if len(packed) != self.packed_bytes:
            raise BadBytes(f"a vector has {len(packed)} bytes; expected {self.packed_bytes}")
        vector = bytearray(self.size_bytes)
        at = 0
        for part, kept in self._columns(*self.split(vector)):
            count = kept * len(part)
            part[:, :kept] = np.frombuffer(packed, np.uint8, count, at).reshape(-1, kept)
            at += count
        return bytes(vector)

    def _columns(self, longs: Longs, words: Words) -> Iterator[tuple[NDArray[np.uint8], int]]:
        """Yield the values of each array as rows of bytes, and how many of them are sent."""
        for spec, at_longs, at_words in self._places:
            kept = self._kept_bytes(spec)
            if spec.bits != 64:
                yield words[at_words].view(np.uint8).reshape(-1, 4), min(kept, 4)
            if spec.bits > 32:
                kept_long = kept - 4 if spec.wide else kept
                yield longs[at_longs].view(np.uint8).reshape(-1, 8), kept_long

    def add(self, first: bytes, second: bytes | memoryview) -> bytes:
        """Return the sum of two vectors."""
        total = bytearray(self.size_bytes)
        longs, words = self.split(total)
        first_longs, first_words = self.split(first)
        second_longs, second_words = self.split(second)
        np.add(first_longs, second_longs, out=longs)
        np.add(first_words, second_words, out=words)
        for at_longs, at_words in self.carries:
            longs[at_longs] += words[at_words] < first_words[at_words]
        return bytes(total)

    @cached_property
    def zero(self) -> bytes:
        """The vector of no examples."""
        return bytes(self.size_bytes)


class Total:
    """A sum of vectors of a ring, to which more can be added.

    Examples
    --------
    >>> ring = Ring(Schema("counter", {}, (ArraySpec("counts", 1),)))
    >>> total = Total(ring).add(b"\\2" + bytes(7)).subtract(b"\\3" + bytes(7))
    >>> ring.statistics(total.vector())["counts"].to_dict()
    {0: -1}
    """

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._longs = np.zeros(ring.longs, dtype=np.uint64)
        self._words = np.zeros(ring.words, dtype=np.int64)  # carried when the sum is read

    def add(self, vector: bytes | memoryview) -> Total:
        """Add a vector."""
        longs, words = self._ring.split(vector)
        self._longs += longs
        self._words += words
        return self

    def subtract(self, vector: bytes | memoryview) -> Total:
        """Subtract a vector."""
        longs, words = self._ring.split(vector)
        self._longs -= longs
        self._words -= words
        return self

    def vector(self) -> bytes:
        """Return the sum as a vector."""
        longs = self._longs
        if carries := self._ring.carries:
            longs = longs.copy()
            for at_longs, at_words in carries:
                longs[at_longs] += (self._words[at_words] >> _SHIFT).view(np.uint64)
        return longs.tobytes() + (self._words & _LOW).astype(np.uint32).tobytes()


def find_bits(max_entry: int | None, max_workers: int, max_examples: int) -> int | None:
    """Return how many bits hold every sum of a job, with its sign; None if it is not known.

    Examples
    --------
    >>> find_bits(1, 10, 100)
    11
    """
    if max_entry is None:
        return None
    return (max_entry * max_workers * max_examples).bit_length() + 1
