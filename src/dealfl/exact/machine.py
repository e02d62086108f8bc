"""The machines on which results are exact."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import DealError

_SHAPES = ((2, 3), (3, 13), (4, 5), (20, 70))  # rows and columns of matrices to multiply

Multiply = Callable[..., NDArray[Any]]


def require_machine(
    byte_order: str = sys.byteorder, pointer_bits: int = 8 * struct.calcsize("P")
) -> None:
    """Refuse a machine on which the bytes or the sizes of integers differ.

    Examples
    --------
    >>> require_machine("big", 64)
    Traceback (most recent call last):
    dealfl.errors.DealError: this machine is big-endian; dealfl needs little-endian and 64 bits
    """
    needed = "dealfl needs little-endian and 64 bits"
    if byte_order != "little":
        raise DealError(f"this machine is {byte_order}-endian; {needed}")
    if pointer_bits != 64:
        raise DealError(f"this Python has {pointer_bits} bits; {needed}")


@cache
def short_float(multiply: Multiply = np.matmul) -> type[np.float32] | type[np.float64]:
    """Return the shortest float of which products of matrices are exact up to 2^24 here.

    That is 32 bits, but some kernels of BLAS for arm64 compute wrong products of 32-bit floats.

    Examples
    --------
    >>> def wrong(left, right, out):
    ...     return np.matmul(left, right, out=out) if out.itemsize == 8 else out
    >>> short_float(wrong)
    <class 'numpy.float64'>
    """
    if _multiplies(np.float32, multiply):
        return np.float32
    if _multiplies(np.float64, multiply):
        return np.float64
    raise DealError(
        "the BLAS library of numpy computes wrong products on this machine; choose other kernels, "
        "for example by OPENBLAS_CORETYPE=ARMV8, or another build of numpy"
    )


def _multiplies(kind: type[np.floating[Any]], multiply: Multiply) -> bool:
    """Return whether some products are right, written to memory that holds anything."""
    for rows, columns in _SHAPES:
        left = np.arange(rows * columns).reshape(rows, columns) % 17 - 8
        for right in (left, left[:, ::-1].copy()):  # the first is a symmetric product
            short = left.astype(kind)
            other = short if right is left else right.astype(kind)
            product = np.full((columns, columns), np.nan, kind)
            with np.errstate(all="ignore"):
                multiply(short.T, other, out=product)
            if not np.array_equal(product, left.T @ right):
                return False
    return True
