"""Exact moments, changed in place by numpy; see `moment_loops`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dealfl.exact import LOW_BITS, LOW_MASK, Integers
from dealfl.learners.gram import row_products

__all__ = ["FOLLOWED", "LOST", "SAME", "change_moments", "change_row", "shift_row"]

SAME, LOST, FOLLOWED = -1, -2, -3  # outcomes of `change_row`; otherwise a number of columns

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
_CLEAR = 1.0 - 1e-12  # float products are accurate to 1e-15
_ROOM = 1 << 62  # high parts of this magnitude do not overflow by one more row


def shift_row(low: Int64s, high: Int64s, row: NDArray[np.int32], sign: int) -> bool:
    """Add the products of a row to the moments, or subtract them; return False on overflow."""
    added = row_products(row[None].astype(np.int64))
    if sign < 0:
        np.negative(added, out=added)
    if not len(high):
        return _shift(low, added)
    if high.min() < -_ROOM or high.max() > _ROOM:
        return False
    low += added  # fits 63 bits
    high += low >> LOW_BITS
    low &= LOW_MASK
    return True


def _shift_wide(low: Int64s, high: Int64s, added: Int64s, added_high: Int64s) -> bool:
    total = low + added
    if not _shift(high, added_high + (total >> LOW_BITS)):
        return False
    np.bitwise_and(total, LOW_MASK, out=low)
    return True


def change_moments(
    low: Int64s, high: Int64s, limit: float, stale: NDArray[np.bool_], added: Int64s,
    added_high: Int64s, sign: int, doubtful: NDArray[np.int32],
) -> int:  # fmt: skip
    """Add moments of a batch or subtract them; return like `change_row`."""
    if len(high):
        fits = _shift_wide(low, high, sign * added, sign * added_high)
    else:
        fits = _shift(low, sign * added)
    if not fits:
        return SAME
    stale.fill(True)
    return _find_doubtful(low, high, limit, doubtful) if sign < 0 else 0


def _shift(values: Int64s, added: Int64s) -> bool:
    total = values + added
    overflow = (values ^ total) & (added ^ total)
    if overflow.min() < 0:
        return False
    values[:] = total
    return True


@lru_cache(maxsize=64)
def _ends(columns: int) -> Int64s:
    """Return where the sum and the square of each column are."""
    places = np.arange(columns, dtype=np.int64)
    starts = places * (places + 1) // 2
    return np.stack((starts, starts + places))


def _find_doubtful(low: Int64s, high: Int64s, limit: float, doubtful: NDArray[np.int32]) -> int:
    """List the columns whose moments are not clearly possible; return their number."""
    ends = _ends(len(doubtful))
    lows = low.take(ends)
    sums, squares = Integers(lows, high.take(ends) if len(high) else None).to_float()
    count = sums[0]
    clear = (squares <= count * limit * _CLEAR) & (sums * sums <= count * squares * _CLEAR)
    clear |= (sums == 0.0) & (squares == 0.0)
    clear[0] = count >= 1.0
    clear &= (lows[0] ^ lows[1]) & 1 == 0
    found = np.flatnonzero(~clear)
    doubtful[: len(found)] = found
    return len(found)


def change_row(
    values: Floats, targets: Floats, scales: Floats, limit: float, low: Int64s, high: Int64s,
    stale: NDArray[np.bool_], sign: int, rows: NDArray[np.int32],
    *following: object,  # noqa: ARG001
) -> int:  # fmt: skip
    """Round one row and add or subtract its products; no factor follows.

    Return the number of columns that must be checked exactly, or `SAME` if nothing was changed
    because a value is out of bounds or a sum overflows. Columns are checked only for forgetting.
    """
    line = np.concatenate((values[0], targets))
    if not np.all(np.abs(line) <= scales[0, 1:]):
        return SAME
    rows[0, 0] = 1
    rows[0, 1:] = np.rint(line * scales[1, 1:])
    if not shift_row(low, high, rows[0], sign):
        return SAME
    stale.fill(True)
    return _find_doubtful(low, high, limit, rows[1]) if sign < 0 else 0
