"""Thermometer code: a column's height above its declared low, as bits set one after another."""

from functools import cached_property
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.features.base import FeatureMap, High, Low, Matrix
from dealfl.features.rows import blocks, table_of

__all__ = ["Thermometer"]


class Thermometer(FeatureMap, frozen=True, dict=True, tag="thermometer"):
    """`levels` bits a column: bit k of 1 .. levels is set from low + k (high − low) / levels on.

    So `low` sets none and `high` sets all; what lies beyond them is as if at the end. `low` and
    `high` are numbers, or lists with one for each column.

    >>> Thermometer(n_inputs=1, low=0.0, high=16.0, levels=4).transform(np.array([[9], [16]]))
    array([[1, 1, 0, 0],
           [1, 1, 1, 1]], dtype=uint8)
    """

    low: Low
    high: High
    levels: Annotated[int, Meta(ge=1, le=4096, description="number of bits of a column")] = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._edges

    @property
    def n_features(self) -> int:
        """One for each level of each column."""
        return self.n_inputs * self.levels

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """1: the features are bits."""
        return np.ones(self.n_features)

    def transform(self, X: Matrix) -> NDArray[np.uint8]:
        """Return the bits of the first column, then those of the second, and so on."""
        rows = table_of(X, self.n_inputs)
        out = np.empty((rows.shape[0], self.n_features), dtype=np.uint8)
        for place, block in blocks(rows, bytes_per_row=self.n_features):
            reached = block[:, :, None] >= self._edges
            out[place] = reached.reshape(len(block), self.n_features)
        return out

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        return self.edges_of(self.n_inputs, "levels")
