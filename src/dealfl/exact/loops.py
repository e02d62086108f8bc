"""Compiled loops over vectors of exact integers: the twins of functions in this package.

A wide integer is high·2^32 + low, as in `integers`; of others, `high` is empty. Numbers are written
without gaps, little-endian, in `width` bytes each: a number is stored as eight bytes, of which the
next one overwrites the rest, so buffers have `PADDING` bytes more. No loop allocates memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from dealfl.exact.compiled import compile_loop
from dealfl.exact.encoding import PADDING
from dealfl.exact.seeded import MIXERS

Array = Any  # a contiguous array; numba derives the types

_BLOCK = 64  # cells of which one test finds that all are zero
_LOW = 0xFFFF_FFFF
_LOW_29 = np.uint64((1 << 29) - 1)
_PRIME = np.uint64((1 << 61) - 1)
_GOLDEN, _FIRST, _SECOND = map(np.uint64, MIXERS)


@compile_loop
def add_values(
    low: Array, high: Array, other_low: Array, other_high: Array, below: Array, above: Array
) -> bool:
    """Write the low and high parts of sums; return whether all sums fit their width."""
    overflow = 0  # its sign
    if len(high) > 0:
        for position in range(len(low)):
            total = low[position] + other_low[position]
            left, right = high[position], other_high[position]
            top = left + right + (total >> 32)
            overflow |= (left ^ top) & (right ^ top)
            below[position], above[position] = total & _LOW, top
    else:
        for position in range(len(low)):
            left, right = low[position], other_low[position]
            total = left + right
            overflow |= (left ^ total) & (right ^ total)
            below[position] = total
    return overflow >= 0


@compile_loop
def _is_zero(low: Array, high: Array, start: int, stop: int) -> bool:
    """Return whether all values of a range are zero."""
    union = 0
    for position in range(start, stop):
        union |= low[position]
    if len(high) > 0:
        for position in range(start, stop):
            union |= high[position]
    return union == 0


@compile_loop
def count_nonzero(low: Array, high: Array) -> int:
    """Return how many values are not zero."""
    count = 0
    if len(high) > 0:
        for position in range(len(low)):
            count += 1 if (low[position] | high[position]) != 0 else 0
    else:
        for position in range(len(low)):
            count += 1 if low[position] != 0 else 0
    return count


@compile_loop
def take_nonzero(
    low: Array, high: Array, first: int, indices: Array, kept_low: Array, kept_high: Array
) -> None:
    """Write indices and parts of the values that are not zero; indices start at `first`."""
    count, wide = 0, len(high) > 0
    for start in range(0, len(low), _BLOCK):
        stop = min(start + _BLOCK, len(low))
        if _is_zero(low, high, start, stop):
            continue
        for position in range(start, stop):
            if count == len(indices):
                return
            below, above = low[position], high[position] if wide else 0
            indices[count], kept_low[count] = first + position, below  # kept if the count rises
            if wide:
                kept_high[count] = above
            count += 1 if (below | above) != 0 else 0


@compile_loop
def add_sorted(
    first: Array,
    first_low: Array,
    first_high: Array,
    second: Array,
    second_low: Array,
    second_high: Array,
    indices: Array,
    low: Array,
    high: Array,
) -> int:
    """Write indices and parts of the sum of two entries; return their number, -1 if one is long."""
    wide, left, right, count, overflow = len(high) > 0, 0, 0, 0, 0
    while left < len(first) or right < len(second):
        takes_first = right == len(second) or (left < len(first) and first[left] <= second[right])
        takes_second = left == len(first) or (right < len(second) and second[right] <= first[left])
        index, below, above = 0, 0, 0
        if takes_first:
            index, below = first[left], first_low[left]
            above = first_high[left] if wide else 0
            left += 1
        if takes_second:
            index, more = second[right], second_low[right]
            total = below + more
            if wide:
                top = second_high[right]
                summed = above + top + (total >> 32)
                overflow |= (above ^ summed) & (top ^ summed)
                below, above = total & _LOW, summed
            else:
                overflow |= (below ^ total) & (more ^ total)
                below = total
            right += 1
        indices[count], low[count] = index, below
        if wide:
            high[count] = above
        count += 1 if below != 0 or above != 0 else 0
    return count if overflow >= 0 else -1


@compile_loop
def find_longest(indices: Array, low: Array, high: Array) -> tuple[int, int, int]:
    """Return the largest gap, and the largest high and low part of a value without its sign."""
    gap, upper, lower, before = 0, 0, 0, -1
    for position in range(len(indices)):
        gap = max(gap, indices[position] - before - 1)
        before = indices[position]
    if len(high) > 0:
        for position in range(len(low)):
            sign = high[position] >> 63
            upper = max(upper, high[position] ^ sign)
            lower = max(lower, low[position] ^ (sign & _LOW))
    else:
        for position in range(len(low)):
            lower = max(lower, low[position] ^ (low[position] >> 63))
    return gap, upper, lower


@intrinsic
def _typed_store(_: Any, data: Any, position: Any, word: Any) -> Any:  # noqa: ANN401 - types of numba
    """Write eight bytes at any place of an array of bytes."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
        pointer = _pointer(target, builder, signature, values)
        builder.store(values[2], pointer).align = 1
        return target.get_dummy_value()

    return types.void(data, position, word), generate


@intrinsic
def _typed_load(_: Any, data: Any, position: Any) -> Any:  # noqa: ANN401 - types of numba
    """Read eight bytes at any place of an array of bytes."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
        word = builder.load(_pointer(target, builder, signature, values))
        word.align = 1
        return word

    return types.int64(data, position), generate


def _pointer(target: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
    array = target.make_array(signature.args[0])(target, builder, values[0])
    return builder.bitcast(builder.gep(array.data, [values[1]]), ir.IntType(64).as_pointer())


_store: Any = _typed_store  # a loop calls them without the first argument
_load: Any = _typed_load


@compile_loop
def write_body(
    indices: Array, low: Array, high: Array, gap_width: int, width: int, out: Array
) -> None:
    """Write the gaps between indices, unless they have no width, and values."""
    wide, first, before = len(high) > 0, len(indices) * gap_width, -1
    if gap_width > 0:
        for position in range(len(indices)):
            _store(out, position * gap_width, indices[position] - before - 1)
            before = indices[position]
    for position in range(len(low)):
        start = first + position * width
        _store(out, start, low[position] | (high[position] << 32) if wide else low[position])
        if width > 8:
            _store(out, start + 8, high[position] >> 32 if wide else low[position] >> 63)


@compile_loop
def write_records(indices: Array, low: Array, high: Array, mask: int, out: Array) -> None:
    """Write the masked index and the value of each entry in two and sixteen bytes."""
    wide = len(high) > 0
    for position in range(len(indices)):
        start = 18 * position
        _store(out, start, indices[position] & mask)
        _store(out, start + 2, low[position] | (high[position] << 32) if wide else low[position])
        _store(out, start + 10, high[position] >> 32 if wide else low[position] >> 63)


@compile_loop
def _read(data: Array, start: int, width: int) -> Any:  # noqa: ANN401 - a number
    """Return the unsigned number in up to eight bytes, the last of the data among them."""
    word = np.int64(0)
    for byte in range(width):
        word |= np.int64(data[start + byte]) << (8 * byte)
    return word


@compile_loop
def read_values(data: Array, width: int, low: Array, high: Array) -> int:
    """Read the parts of values; return how many of them are not zero."""
    wide, nonzero, last = len(high) > 0, 0, len(data) - PADDING
    head = min(width, 8)
    short, rest_short = 64 - 8 * head, 64 - 8 * (width - 8)
    for position in range(len(low)):
        start = position * width
        inside = start <= last
        word = _load(data, start) if inside else _read(data, start, head)
        word = (word << short) >> short
        rest = word >> 63
        if width > 8:
            rest = _load(data, start + 8) if inside else _read(data, start + 8, width - 8)
            rest = (rest << rest_short) >> rest_short
        nonzero += 1 if word != 0 or rest != 0 else 0
        if wide:
            low[position] = word & _LOW
            high[position] = ((word >> 32) & _LOW) + (rest << 32)
        else:
            low[position] = word
    return nonzero


@compile_loop
def read_gaps(data: Array, width: int, size: int, indices: Array) -> bool:
    """Read indices from the gaps between them; return whether all are below `size`."""
    index, last = np.int64(-1), len(data) - 8
    mask = (1 << (8 * width)) - 1 if width < 8 else -1
    for position in range(len(indices)):
        start = position * width
        gap = _load(data, start) & mask if start <= last else _read(data, start, width)
        if gap < 0 or gap >= size - index - 1:
            return False
        index += gap + 1
        indices[position] = index
    return True


@intrinsic
def _typed_multiply(_: Any, value: Any, key: Any) -> Any:  # noqa: ANN401 - types of numba
    """Return a number below 2⁶² that is value · key modulo 2⁶¹ − 1; both are at most 2⁶¹."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
        del target, signature
        word, double = ir.IntType(64), ir.IntType(128)
        product = builder.mul(*(builder.zext(value, double) for value in values))
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
def sum_products(low: Array, high: Array, indices: Array, secret: Any, second: Any) -> Any:  # noqa: ANN401
    """Return Σ value · key(index) modulo 2⁶¹ − 1.

    The key of an index is what `dealfl.exact.seeded.words` returns, without its three lowest bits.
    """
    total, wide = np.uint64(0), len(high) > 0
    word, bits29 = np.uint64(32), np.uint64(29)
    for position in range(len(low)):
        value = _reduce(high[position] if wide else low[position])
        if wide:  # times 2³²
            value = _fold(
                ((value & _LOW_29) << word) + (value >> bits29) + np.uint64(low[position])
            )
        key = np.uint64(indices[position]) * _GOLDEN ^ secret
        key = (key ^ (key >> np.uint64(30))) * _FIRST + second
        key = (key ^ (key >> np.uint64(27))) * _SECOND
        key = (key ^ (key >> np.uint64(31))) >> np.uint64(3)
        total = _fold(total + _multiply(value, key))
    return total % _PRIME
