"""The raw columns, as they are."""

from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.features.base import FeatureMap, Matrix
from dealfl.features.rows import Bound, blocks, refuse_outside, table_of

__all__ = ["Identity"]


class Identity(FeatureMap, frozen=True, dict=True, tag="identity"):
    """The columns as they are, within a declared bound; the learner puts them on its own grid.

    `bound`: the largest magnitude of a column, a number or one for each. What exceeds it is
    refused, not clipped. An array is passed on as it is, without a copy; csr becomes dense.

    >>> Identity(n_inputs=2, bound=16.0).transform(np.array([[3, -16]]))
    array([[  3, -16]])
    """

    bound: Annotated[Bound, Meta(description="largest magnitude of all columns, or of each")]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.feature_bound.all():
            raise self.bad("bound", "a bound must be above 0")

    @property
    def n_features(self) -> int:
        """As many as inputs."""
        return self.n_inputs

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """The declared bound of each column."""
        return self.spread("bound", self.n_inputs)

    def transform(self, X: Matrix) -> NDArray[Any]:
        """Return the rows of X, dense, after the checks."""
        rows = table_of(X, self.n_inputs)
        bound = self.feature_bound
        for place, block in blocks(rows, bytes_per_row=16 * self.n_inputs):
            refuse_outside(block, place.start, -bound, bound, "declare a wider bound")
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return dense.astype(np.uint8) if dense.dtype == np.bool_ else dense
