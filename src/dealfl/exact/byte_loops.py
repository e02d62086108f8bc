"""Compiled loops that write integers as bytes and read them again, eight bytes at a time.

Numbers follow each other without gaps, little-endian, in `width` bytes each. A number is stored as
eight bytes, of which the next number overwrites the rest: buffers have `PADDING` bytes more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from dealfl.exact.compiled import compile_loop

__all__: list[str] = []  # nothing for other programs

Array = Any  # a contiguous array; numba derives the types

PADDING = 16
_LOW = 0xFFFF_FFFF


@intrinsic
def _typed_store(_: Any, data: Any, place: Any, word: Any) -> Any:  # noqa: ANN401 - types of numba
    """Write eight bytes at any place of an array of bytes."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
        pointer = _pointer(target, builder, signature, values)
        builder.store(values[2], pointer).align = 1
        return target.get_dummy_value()

    return types.void(data, place, word), generate


@intrinsic
def _typed_load(_: Any, data: Any, place: Any) -> Any:  # noqa: ANN401 - types of numba
    """Read eight bytes at any place of an array of bytes."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
        word = builder.load(_pointer(target, builder, signature, values))
        word.align = 1
        return word

    return types.int64(data, place), generate


def _pointer(target: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
    array = target.make_array(signature.args[0])(target, builder, values[0])
    return builder.bitcast(builder.gep(array.data, [values[1]]), ir.IntType(64).as_pointer())


_store: Any = _typed_store  # a loop calls them without the first argument
_load: Any = _typed_load


@compile_loop
def write_values(low: Array, high: Array, first: int, width: int, out: Array) -> None:
    """Write values one after the other, from byte `first` on."""
    wide = len(high) > 0
    for place in range(len(low)):
        start = first + place * width
        word = low[place] | (high[place] << 32) if wide else low[place]
        _store(out, start, word)
        if width > 8:
            _store(out, start + 8, high[place] >> 32 if wide else low[place] >> 63)


@compile_loop
def write_gaps(indices: Array, width: int, out: Array) -> None:
    """Write the gaps between ascending indices."""
    before = -1
    for place in range(len(indices)):
        _store(out, place * width, indices[place] - before - 1)
        before = indices[place]


@compile_loop
def write_records(indices: Array, low: Array, high: Array, mask: int, out: Array) -> None:
    """Write the masked index and the value of each entry in two and sixteen bytes."""
    wide = len(high) > 0
    for place in range(len(indices)):
        start = 18 * place
        _store(out, start, indices[place] & mask)
        _store(out, start + 2, low[place] | (high[place] << 32) if wide else low[place])
        _store(out, start + 10, high[place] >> 32 if wide else low[place] >> 63)


@compile_loop
def _read(data: Array, start: int, width: int) -> Any:  # noqa: ANN401 - a number
    """Return the unsigned number in up to eight bytes, the last of the data among them."""
    word = np.int64(0)
    for byte in range(width):
        word |= np.int64(data[start + byte]) << (8 * byte)
    return word


@compile_loop
def read_values(data: Array, width: int, low: Array, high: Array) -> int:
    """Read values that `write_values` wrote; return how many are not zero."""
    wide, nonzero, last = len(high) > 0, 0, len(data) - PADDING
    head = min(width, 8)
    short, rest_short = 64 - 8 * head, 64 - 8 * (width - 8)
    for place in range(len(low)):
        start = place * width
        inside = start <= last
        word = _load(data, start) if inside else _read(data, start, head)
        word = (word << short) >> short
        rest = word >> 63
        if width > 8:
            rest = _load(data, start + 8) if inside else _read(data, start + 8, width - 8)
            rest = (rest << rest_short) >> rest_short
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
    index, last, mask = np.int64(-1), len(data) - 8, (1 << (8 * width)) - 1 if width < 8 else -1
    for place in range(len(indices)):
        start = place * width
        gap = _load(data, start) & mask if start <= last else _read(data, start, width)
        if gap < 0 or gap >= size - index - 1:
            return False
        index += gap + 1
        indices[place] = index
    return True
