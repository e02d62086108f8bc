"""Thermometer code: the position of a value in its column's range, as a run of set bits."""

from functools import cached_property
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.features.base import FeatureMap, High, Low, Matrix
from dealfl.features.rows import blocks, table_of

__all__ = ["Thermometer"]


class Thermometer(FeatureMap, frozen=True, dict=True, tag="thermometer"):
    """Bits per column that say which levels of the range a value reaches.

    Bit k of 1 .. levels is set if the value is at least low + k (high − low) / levels. So `low`
    sets no bit and `high` sets all. Values outside the range count as the nearest end.

    Parameters
    ----------
    n_inputs : int
        Number of columns of the raw examples.
    low : float or tuple of float
        Lower end of the range, one number or one per column.
    high : float or tuple of float
        Upper end of the range, one number or one per column.
    levels : int, default 8
        Number of bits of a column.

    Examples
    --------
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
        """One per level of each column."""
        return self.n_inputs * self.levels

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """1, because the features are bits."""
        return np.ones(self.n_features)

    def transform(self, X: Matrix) -> NDArray[np.uint8]:
        """Return the bits, column by column.

        Parameters
        ----------
        X : ndarray or csr_array
            Raw examples, one row each.

        Returns
        -------
        ndarray of uint8
            Dense features.

        Raises
        ------
        BadInput
            `X` has another shape, or a value is not finite.
        """
        rows = table_of(X, self.n_inputs)
        out = np.empty((rows.shape[0], self.n_features), dtype=np.uint8)
        for place, block in blocks(rows, bytes_per_row=self.n_features):
            reached = block[:, :, None] >= self._edges
            out[place] = reached.reshape(len(block), self.n_features)
        return out

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        return self.edges_of(self.n_inputs, "levels")
