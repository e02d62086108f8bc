"""Compiled loops over vectors of exact integers: sums, canonical bytes and fingerprints.

A wide integer is high·2^32 + low, as in `dealfl.integers`; of others, `high` is empty. Every loop
reads its arrays once and allocates nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.compiled import compile_loop

__all__: list[str] = []  # nothing for other programs

Array = Any  # a contiguous array; numba derives the types

_LOW = 0xFFFF_FFFF
_PRIME = np.uint64((1 << 61) - 1)
_LOW_WORD = np.uint64(_LOW)
_LOW_29 = np.uint64((1 << 29) - 1)


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


@compile_loop
def write_values(
    low: Array, high: Array, indices: Array, first: int, width: int, out: Array
) -> None:
    """Write values as little-endian bytes, one after the other, or at their indices if given."""
    wide, scattered = len(high) > 0, len(indices) > 0
    for place in range(len(low)):
        start = first + (indices[place] if scattered else place) * width
        word = low[place] | (high[place] << 32) if wide else low[place]
        rest = high[place] >> 32 if wide else low[place] >> 63
        for byte in range(min(width, 8)):
            out[start + byte] = word & 255
            word >>= 8
        for byte in range(8, width):
            out[start + byte] = rest & 255
            rest >>= 8


@compile_loop
def write_records(indices: Array, low: Array, high: Array, mask: int, out: Array) -> None:
    """Write the masked index and the value of each entry in words of 16 bits: one and eight."""
    wide = len(high) > 0
    for place in range(len(indices)):
        word = low[place] | (high[place] << 32) if wide else low[place]
        rest = high[place] >> 32 if wide else low[place] >> 63
        record = out[place]
        record[0] = indices[place] & mask
        for part in range(4):
            record[1 + part] = (word >> (16 * part)) & 0xFFFF
            record[5 + part] = (rest >> (16 * part)) & 0xFFFF


@compile_loop
def write_gaps(indices: Array, first: int, width: int, out: Array) -> None:
    """Write the gaps between ascending indices as little-endian bytes."""
    before, start = -1, first
    for place in range(len(indices)):
        gap = indices[place] - before - 1
        before = indices[place]
        for byte in range(width):
            out[start + byte] = gap & 255
            gap >>= 8
        start += width


@compile_loop
def read_values(data: Array, width: int, low: Array, high: Array) -> int:
    """Read values that `write_values` wrote one after the other; return how many are not zero."""
    wide, nonzero = len(high) > 0, 0
    short = 64 - 8 * min(width, 8)
    rest_short = 64 - 8 * (width - 8) if width > 8 else 0
    for place in range(len(low)):
        start = place * width
        word, rest = np.int64(0), np.int64(0)
        for byte in range(min(width, 8)):
            word |= np.int64(data[start + byte]) << (8 * byte)
        word = (word << short) >> short
        for byte in range(8, width):
            rest |= np.int64(data[start + byte]) << (8 * (byte - 8))
        rest = (rest << rest_short) >> rest_short if width > 8 else word >> 63
        nonzero += 1 if word != 0 or rest != 0 else 0
        if wide:
            low[place] = word & _LOW
            high[place] = ((word >> 32) & _LOW) + (rest << 32)
        else:
            low[place] = word
    return nonzero


@compile_loop
def read_gaps(data: Array, width: int, size: int, indices: Array) -> bool:
    """Read the indices whose gaps were written; return False if one is not below `size`."""
    index = np.int64(-1)
    for place in range(len(indices)):
        gap = np.int64(0)
        for byte in range(width):
            gap |= np.int64(data[place * width + byte]) << (8 * byte)
        if gap < 0 or gap >= size - index - 1:
            return False
        index += gap + 1
        indices[place] = index
    return True


@compile_loop
def _fold(value: Any) -> Any:  # noqa: ANN401 - a number of 64 bits
    """Return a number modulo 2⁶¹ − 1, because 2⁶¹ is 1 modulo the prime."""
    rest = (value & _PRIME) + (value >> np.uint64(61))
    return rest - _PRIME if rest >= _PRIME else rest


@compile_loop
def _multiply(value: Any, key: Any) -> Any:  # noqa: ANN401 - numbers of 64 bits
    """Return value · key modulo 2⁶¹ − 1; both are at most 2⁶¹."""
    word, bits29, bits61 = np.uint64(32), np.uint64(29), np.uint64(61)
    top, bottom = value >> word, value & _LOW_WORD
    middle = top * (key & _LOW_WORD) + bottom * (key >> word)
    low = bottom * (key & _LOW_WORD)
    # 2⁶⁴ = 8 and 2⁶¹ = 1 modulo the prime
    product = (top * (key >> word) << np.uint64(3)) + (middle >> bits29) + (low >> bits61)
    product += ((middle & _LOW_29) << word) + (low & _PRIME)
    return _fold(product)


@compile_loop
def _reduce(value: Any) -> Any:  # noqa: ANN401 - a number of 64 bits
    """Return a signed number modulo 2⁶¹ − 1."""
    rest = (value & np.int64(_PRIME)) + (value >> np.int64(61))
    return np.uint64(rest + np.int64(_PRIME) if rest < 0 else rest)


@compile_loop
def add_products(low: Array, high: Array, keys: Array) -> Any:  # noqa: ANN401 - a number
    """Return Σ value · key modulo 2⁶¹ − 1; keys are below 2⁶¹."""
    total, wide, shift = np.uint64(0), len(high) > 0, np.uint64(1 << 32)
    for place in range(len(low)):
        value = _reduce(low[place])
        if wide:
            value += _multiply(_reduce(high[place]), shift)
        total = _fold(total + _multiply(_fold(value), keys[place]))
    return total
