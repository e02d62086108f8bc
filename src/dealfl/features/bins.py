"""Fixed bins: one feature for each part of a column's declared range."""

import math
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.features.base import FeatureMap, High, Low, Matrix
from dealfl.features.rows import Bound, blocks, refuse_outside, table_of

__all__ = ["Bins"]

Columns = Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(min_length=1)]


class Bins(FeatureMap, frozen=True, dict=True, tag="bins"):
    """Equal-width bins over low .. high, one-hot; the first and the last bin are open-ended.

    `columns` are binned (all, if left out); the others pass through, with a magnitude of at most
    `bound`. `low`, `high` and `bound` are numbers, or lists with one for each such column.
    Features stay in the order of the columns. The output is dense; whole numbers come out in the
    smallest type that holds `bound`, fractions that pass through in the type they have.

    >>> bins = Bins(n_inputs=2, columns=(0,), low=0.0, high=4.0, bins=4)
    >>> bins.transform(np.array([[1, 1], [99, 0]])).tolist()
    [[0, 1, 0, 0, 1], [0, 0, 0, 1, 0]]
    """

    low: Low
    high: High
    bins: Annotated[int, Meta(ge=2, le=4096, description="number of bins of a range")] = 16
    columns: Annotated[
        Columns | None, Meta(description="indices, from 0, of the columns to bin; by default all")
    ] = None
    bound: Annotated[
        Bound, Meta(description="largest magnitude of all columns that pass through, or of each")
    ] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self._binned)) < len(self._binned) or max(self._binned) >= self.n_inputs:
            raise self.bad("columns", f"name each at most once, below {self.n_inputs}")
        if not self.feature_bound.all():
            raise self.bad("bound", "a bound must be above 0")
        _ = self._inner_edges

    @property
    def n_features(self) -> int:
        """One for each bin of each binned column, one for each other column."""
        return int(self._widths.sum())

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """1 for a bin, the declared bound for a column that passes through."""
        bound = np.ones(self.n_features)
        bound[self._places[self._passed]] = self._limits[self._passed]
        return bound

    def transform(self, X: Matrix) -> NDArray[Any]:
        """Return the one-hot bins and the columns that pass through."""
        rows = table_of(X, self.n_inputs)
        out = np.zeros((rows.shape[0], self.n_features), dtype=self._dtype(rows.dtype))
        for place, block in blocks(rows, bytes_per_row=16 * self.n_inputs):
            refuse_outside(block, place.start, -self._limits, self._limits, "declare a wider bound")
            self._fill(out[place], block)
        return out

    def _fill(self, out: NDArray[Any], block: NDArray[np.float64]) -> None:
        out[:, self._places[self._passed]] = block[:, self._passed]
        each_row = np.arange(len(block))
        for column, edges in zip(self._binned, self._inner_edges, strict=True):
            chosen = np.searchsorted(edges, block[:, column], side="right")
            out[each_row, self._places[column] + chosen] = 1

    def _dtype(self, given: np.dtype[Any]) -> np.dtype[Any]:
        if not self._passed.size:
            return np.dtype(np.uint8)
        if given.kind == "f":
            return given
        return np.min_scalar_type(-math.ceil(self.feature_bound.max()))

    @property
    def _binned(self) -> tuple[int, ...]:
        return tuple(range(self.n_inputs)) if self.columns is None else self.columns

    @cached_property
    def _passed(self) -> NDArray[np.intp]:
        return np.setdiff1d(np.arange(self.n_inputs), self._binned)

    @cached_property
    def _limits(self) -> NDArray[np.float64]:
        limits = np.full(self.n_inputs, np.inf)  # the end bins are open
        limits[self._passed] = self.spread("bound", len(self._passed))
        return limits

    @cached_property
    def _widths(self) -> NDArray[np.intp]:
        widths = np.full(self.n_inputs, self.bins)
        widths[self._passed] = 1
        return widths

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        return np.cumsum(self._widths) - self._widths

    @cached_property
    def _inner_edges(self) -> NDArray[np.float64]:
        return self.edges_of(len(self._binned), "bins")[:, :-1]
