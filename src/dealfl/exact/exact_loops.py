"""Compiled loops over vectors of exact integers: sums and fingerprints.

A wide integer is high·2^32 + low, as in `integers`; of others, `high` is empty. Every loop
reads its arrays once and allocates nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from dealfl.exact.compiled import compile_loop
from dealfl.exact.seeded import MIXERS

__all__: list[str] = []  # nothing for other programs

Array = Any  # a contiguous array; numba derives the types

_LOW = 0xFFFF_FFFF
_PRIME = np.uint64((1 << 61) - 1)
_LOW_29 = np.uint64((1 << 29) - 1)
_GOLDEN, _FIRST, _SECOND = map(np.uint64, MIXERS)


@compile_loop
def add_sorted(
    first: Array, first_low: Array, first_high: Array,
    second: Array, second_low: Array, second_high: Array,
    indices: Array, low: Array, high: Array,
) -> int:  # fmt: skip
    """Add two arrays given by ascending indices; return the number of non-zeros, −1 if one is long.

    The result is written to arrays that are as long as both together.
    """
    wide, one, two, count, long = len(high) > 0, 0, 0, 0, 0
    while one < len(first) or two < len(second):
        takes_first = two == len(second) or (one < len(first) and first[one] <= second[two])
        takes_second = one == len(first) or (two < len(second) and second[two] <= first[one])
        index, below, above = 0, 0, 0
        if takes_first:
            index, below = first[one], first_low[one]
            above = first_high[one] if wide else 0
            one += 1
        if takes_second:
            index, more = second[two], second_low[two]
            if wide:
                total = below + more
                top = second_high[two]
                summed = above + top + (total >> 32)
                long |= ((above ^ summed) & (top ^ summed)) < 0
                below, above = total & _LOW, summed
            else:
                total = below + more
                long |= ((below ^ total) & (more ^ total)) < 0
                below = total
            two += 1
        indices[count], low[count] = index, below
        if wide:
            high[count] = above
        count += 1 if below != 0 or above != 0 else 0
    return -1 if long else count


@compile_loop
def add_values(
    first_low: Array, first_high: Array, second_low: Array, second_high: Array,
    low: Array, high: Array,
) -> bool:  # fmt: skip
    """Add two vectors of the same length; return False if a sum is too long."""
    long = 0
    if len(high) > 0:
        for place in range(len(low)):
            below = first_low[place] + second_low[place]
            one, two = first_high[place], second_high[place]
            above = one + two + (below >> 32)
            long |= (one ^ above) & (two ^ above)
            low[place], high[place] = below & _LOW, above
    else:
        for place in range(len(low)):
            one, two = first_low[place], second_low[place]
            total = one + two
            long |= (one ^ total) & (two ^ total)
            low[place] = total
    return long >= 0


@compile_loop
def count_nonzero(low: Array, high: Array) -> int:
    """Return how many values are not zero."""
    count = 0
    if len(high) > 0:
        for place in range(len(low)):
            count += 1 if (low[place] | high[place]) != 0 else 0
    else:
        for place in range(len(low)):
            count += 1 if low[place] != 0 else 0
    return count


@compile_loop
def take_nonzero(
    low: Array, high: Array, first: int, indices: Array, kept_low: Array, kept_high: Array
) -> None:
    """Write the values that are not zero and their indices; the first value has index `first`."""
    count, wide, total = 0, len(high) > 0, len(indices)
    for place in range(len(low)):
        if count == total:
            return
        below, above = low[place], high[place] if wide else 0
        indices[count], kept_low[count] = first + place, below  # without a branch: it stays or not
        if wide:
            kept_high[count] = above
        count += 1 if (below | above) != 0 else 0


@compile_loop
def take_few(low: Array, words: Array, first: int, indices: Array, kept: Array) -> None:
    """Do the same for values without a high part; skip zeros, eight words of memory at a time.

    `words` are the first cells, as words of 64 bits; it has a multiple of eight.
    """
    count, total, cells, groups = 0, len(indices), 64 // low.itemsize, len(words) // 8
    for group in range(groups + 1):  # after the last one, what is left
        start, stop = group * cells, len(low)
        if group < groups:
            stop = start + cells
            some = words[8 * group : 8 * group + 8]
            union = some[0] | some[1] | some[2] | some[3] | some[4] | some[5] | some[6] | some[7]
            if union == 0:
                continue
        for place in range(start, stop):
            if count == total:
                return
            indices[count], kept[count] = first + place, low[place]
            count += 1 if low[place] != 0 else 0


@compile_loop
def find_bits(low: Array, high: Array) -> tuple[int, int]:
    """Return the union of the bits of all values, without their signs: of highs, and of lows."""
    upper, lower = 0, 0
    if len(high) > 0:
        for place in range(len(low)):
            sign = high[place] >> 63
            upper |= high[place] ^ sign
            lower |= low[place] ^ (sign & _LOW)
    else:
        for place in range(len(low)):
            lower |= low[place] ^ (low[place] >> 63)
    return upper, lower


@compile_loop
def find_gap_bits(indices: Array) -> int:
    """Return the union of the bits of all gaps between ascending indices."""
    bits, before = 0, -1
    for place in range(len(indices)):
        bits |= indices[place] - before - 1
        before = indices[place]
    return bits


@intrinsic
def _typed_multiply(_: Any, value: Any, key: Any) -> Any:  # noqa: ANN401 - types of numba
    """Return a number below 2⁶² that is value · key modulo 2⁶¹ − 1; both are at most 2⁶¹."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
        del target, signature
        word, double = ir.IntType(64), ir.IntType(128)
        product = builder.mul(*(builder.zext(one, double) for one in values))
        below = builder.and_(builder.trunc(product, word), word(int(_PRIME)))
        return builder.add(below, builder.trunc(builder.lshr(product, double(61)), word))

    return types.uint64(value, key), generate


_multiply: Any = _typed_multiply  # a loop calls it without the first argument


@compile_loop
def _fold(value: Any) -> Any:  # noqa: ANN401 - a number of 64 bits
    """Return a number of at most 61 bits, or 2⁶¹, that is the same modulo 2⁶¹ − 1."""
    return (value & _PRIME) + (value >> np.uint64(61))


@compile_loop
def _reduce(value: Any) -> Any:  # noqa: ANN401 - a number of 64 bits
    """Return a signed number modulo 2⁶¹ − 1."""
    rest = (value & np.int64(_PRIME)) + (value >> np.int64(61))
    return np.uint64(rest + np.int64(_PRIME) if rest < 0 else rest)


@compile_loop
def add_products(low: Array, high: Array, indices: Array, secret: Any, second: Any) -> Any:  # noqa: ANN401 - a number
    """Return a number that is Σ value · key(index) modulo 2⁶¹ − 1.

    The key of an index is what `dealfl.exact.seeded.words` returns, without its three lowest bits.
    """
    total, wide = np.uint64(0), len(high) > 0
    word, bits29 = np.uint64(32), np.uint64(29)
    for place in range(len(low)):
        value = _reduce(high[place] if wide else low[place])
        if wide:  # times 2³²
            value = _fold(((value & _LOW_29) << word) + (value >> bits29) + np.uint64(low[place]))
        key = np.uint64(indices[place]) * _GOLDEN ^ secret
        key = (key ^ (key >> np.uint64(30))) * _FIRST + second
        key = (key ^ (key >> np.uint64(27))) * _SECOND
        key = (key ^ (key >> np.uint64(31))) >> np.uint64(3)
        total = _fold(total + _multiply(value, key))
    return total
