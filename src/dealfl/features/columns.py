"""Maps of single columns: unchanged, as one-hot bins, or as a thermometer code."""

import math
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.features.base import (
    Bound,
    FeatureMap,
    High,
    Low,
    Matrix,
    blocks,
    refuse_outside,
    table_of,
)

Columns = Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(min_length=1)]


class Identity(FeatureMap, frozen=True, dict=True, tag="identity"):
    """The raw columns, unchanged, within a declared bound.

    The learner puts the values on its own grid. A value outside the bound is an error; it is not
    clipped. A dense array is returned without a copy; a CSR matrix becomes dense.

    Examples
    --------
    >>> Identity(n_inputs=2, bound=16.0).transform(np.array([[3, -16]]))
    array([[  3, -16]])
    """

    bound: Annotated[
        Bound, Meta(description="largest magnitude of a column, one number or one per column")
    ]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.feature_bound.all():
            raise self._bad("bound", "a bound must be above 0")

    @property
    def n_features(self) -> int:
        """The number of inputs."""
        return self.n_inputs

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """The declared bound of each column."""
        return self._spread("bound", self.n_inputs)

    def transform(self, X: Matrix) -> NDArray[Any]:
        """Return the checked rows as a dense array."""
        rows = table_of(X, self.n_inputs)
        bound = self.feature_bound
        for part, block in blocks(rows, bytes_per_row=16 * self.n_inputs):
            refuse_outside(block, part.start, -bound, bound, "declare a wider bound")
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return dense.astype(np.uint8) if dense.dtype == np.bool_ else dense


class Bins(FeatureMap, frozen=True, dict=True, tag="bins"):
    """Equal-width one-hot bins from low to high; the first and the last bin are open-ended.

    Columns that are not binned pass through. Features stay in the order of the columns. The output
    is dense. Integers have the smallest type that holds `bound`; floats keep their type.

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
            raise self._bad("columns", f"give distinct indices below {self.n_inputs}")
        if not self.feature_bound.all():
            raise self._bad("bound", "a bound must be above 0")
        _ = self._inner_edges

    @property
    def n_features(self) -> int:
        """One per bin of each binned column, and one per other column."""
        return int(self._widths.sum())

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """1 for a bin, the declared bound for a column that passes through."""
        bound = np.ones(self.n_features)
        bound[self._starts[self._passed]] = self._limits[self._passed]
        return bound

    def transform(self, X: Matrix) -> NDArray[Any]:
        """Return the one-hot bins and the columns that pass through."""
        rows = table_of(X, self.n_inputs)
        out = np.zeros((rows.shape[0], self.n_features), dtype=self._dtype(rows.dtype))
        for part, block in blocks(rows, bytes_per_row=16 * self.n_inputs):
            refuse_outside(block, part.start, -self._limits, self._limits, "declare a wider bound")
            self._fill(out[part], block)
        return out

    def _fill(self, out: NDArray[Any], block: NDArray[np.float64]) -> None:
        out[:, self._starts[self._passed]] = block[:, self._passed]
        each_row = np.arange(len(block))
        for column, edges in zip(self._binned, self._inner_edges, strict=True):
            chosen = np.searchsorted(edges, block[:, column], side="right")
            out[each_row, self._starts[column] + chosen] = 1

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
        limits[self._passed] = self._spread("bound", len(self._passed))
        return limits

    @cached_property
    def _widths(self) -> NDArray[np.intp]:
        widths = np.full(self.n_inputs, self.bins)
        widths[self._passed] = 1
        return widths

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        return np.cumsum(self._widths) - self._widths

    @cached_property
    def _inner_edges(self) -> NDArray[np.float64]:
        return self._edges_of(len(self._binned), "bins")[:, :-1]


class Thermometer(FeatureMap, frozen=True, dict=True, tag="thermometer"):
    """Bits per column that say which levels of the range a value reaches.

    Bit k of 1 .. levels is set if the value is at least low + k (high − low) / levels. So `low`
    sets no bit and `high` sets all. Values outside the range count as the nearest end.

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
        """Return the bits, column by column."""
        rows = table_of(X, self.n_inputs)
        out = np.empty((rows.shape[0], self.n_features), dtype=np.uint8)
        for part, block in blocks(rows, bytes_per_row=self.n_features):
            reached = block[:, :, None] >= self._edges
            out[part] = reached.reshape(len(block), self.n_features)
        return out

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        return self._edges_of(self.n_inputs, "levels")
