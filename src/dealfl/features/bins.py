"""Fixed bins: one feature per part of a column's declared range."""

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
    """Equal-width one-hot bins from low to high; the first and the last bin are open-ended.

    Columns that are not binned pass through. Features stay in the order of the columns. The output
    is dense. Integers have the smallest type that holds `bound`; floats keep their type.

    Parameters
    ----------
    n_inputs : int
        Number of columns of the raw examples.
    low : float or tuple of float
        Lower end of the range of the binned columns, one number or one per binned column.
    high : float or tuple of float
        Upper end of the range of the binned columns, one number or one per binned column.
    bins : int, default 16
        Number of bins of a column.
    columns : tuple of int, optional
        Indices, from 0, of the columns to bin; by default all.
    bound : float or tuple of float, default 1.0
        Largest magnitude of the columns that pass through, one number or one per such column.

    Examples
    --------
    >>> bins = Bins(n_inputs=2, columns=(0,), low=0.0, high=4.0, bins=4)
    >>> bins.transform(np.array([[1, 1], [99, 0]])).tolist()
    [[0, 1, 0, 0, 1], [0, 0, 0, 1, 0]]
    """

    low: Low
    high: High
    bins: Annotated[int, Meta(ge=2, le=4096, description="number of bins of a column")] = 16
    columns: Annotated[
        Columns | None, Meta(description="indices, from 0, of the columns to bin; default: all")
    ] = None
    bound: Annotated[
        Bound,
        Meta(description="largest magnitude of other columns, one number or one per column"),
    ] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self._binned)) < len(self._binned) or max(self._binned) >= self.n_inputs:
            raise self.bad("columns", f"give distinct indices below {self.n_inputs}")
        if not self.feature_bound.all():
            raise self.bad("bound", "a bound must be above 0")
        _ = self._inner_edges

    @property
    def n_features(self) -> int:
        """One per bin of each binned column, and one per other column."""
        return int(self._widths.sum())

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """1 for a bin, the declared bound for a column that passes through."""
        bound = np.ones(self.n_features)
        bound[self._places[self._passed]] = self._limits[self._passed]
        return bound

    def transform(self, X: Matrix) -> NDArray[Any]:
        """Return the one-hot bins and the columns that pass through.

        Parameters
        ----------
        X : ndarray or csr_array
            Raw examples, one row each.

        Returns
        -------
        ndarray
            Dense features.

        Raises
        ------
        BadInput
            `X` has another shape, or a value is not finite.
        OutOfBounds
            A value that passes through is outside its bound.
        """
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
