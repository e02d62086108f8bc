"""The raw columns, unchanged."""

from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.features.base import FeatureMap, Matrix
from dealfl.features.rows import Bound, blocks, refuse_outside, table_of

__all__ = ["Identity"]


class Identity(FeatureMap, frozen=True, dict=True, tag="identity"):
    """The raw columns, unchanged, within a declared bound.

    The learner puts the values on its own grid. A value outside the bound is an error; it is not
    clipped. A dense array is returned without a copy; a CSR matrix becomes dense.

    Parameters
    ----------
    n_inputs : int
        Number of columns of the raw examples.
    bound : float or tuple of float
        Largest magnitude of the columns, one number or one per column.

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
            raise self.bad("bound", "a bound must be above 0")

    @property
    def n_features(self) -> int:
        """The number of inputs."""
        return self.n_inputs

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """The declared bound of each column."""
        return self.spread("bound", self.n_inputs)

    def transform(self, X: Matrix) -> NDArray[Any]:
        """Return the checked rows as a dense array.

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
            A value is outside its bound.
        """
        rows = table_of(X, self.n_inputs)
        bound = self.feature_bound
        for place, block in blocks(rows, bytes_per_row=16 * self.n_inputs):
            refuse_outside(block, place.start, -bound, bound, "declare a wider bound")
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return dense.astype(np.uint8) if dense.dtype == np.bool_ else dense
