"""A declared range of each column, and its parts of equal width."""

import numpy as np
from numpy.typing import NDArray

from dealfl.features.declared import Declared, bad_setting, spread

__all__ = ["edges_of", "range_of"]


def range_of(declared: Declared, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return `low` and `high` of each of `count` columns; low must lie below high."""
    low, high = spread(declared, "low", count), spread(declared, "high", count)
    usable = low < high
    if not usable.all():
        column = int(np.argmin(usable))
        remedy = f"high must lie above low, which is {low[column]:g} in column {column}"
        raise bad_setting(declared, "high", remedy)
    return low, high


def edges_of(declared: Declared, count: int, parts: str) -> NDArray[np.float64]:
    """Return the upper edge of each of the equal parts of each column's range, columns x parts.

    `parts` is the setting that holds their number. Whole edges come out exact: the product is
    made before the division.
    """
    low, high = range_of(declared, count)
    number = int(getattr(declared, parts))
    steps = np.arange(1, number + 1)
    edges: NDArray[np.float64] = low[:, None] + (high - low)[:, None] * steps / number
    edges[:, -1] = high
    if not (np.diff(edges, axis=1, prepend=low[:, None]) > 0).all():
        raise bad_setting(declared, parts, "the range is too narrow for so many parts")
    return edges
