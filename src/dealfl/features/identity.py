"""The raw columns, as they are."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dealfl.features.base import Matrix
from dealfl.features.declared import bad_setting, settle, spread, table
from dealfl.features.kinds import Number, Numbers, Whole
from dealfl.features.rows import EXACT, blocks, refuse_outside, table_of

__all__ = ["Identity"]


@dataclass(frozen=True)
class Identity:
    """The columns as they are, within a declared bound; the learner puts them on its own grid.

    `bound`: the largest magnitude of a column, a number or one for each. What exceeds it is
    refused, not clipped. An array is passed on as it is, without a copy; csr becomes dense.

    >>> Identity(n_inputs=2, bound=16.0).transform(np.array([[3, -16]]))
    array([[  3, -16]])
    """

    name: ClassVar[str] = "identity"

    n_inputs: Annotated[int, Whole(1)]
    bound: Annotated[float | tuple[float, ...], Numbers(Number(0.0, EXACT))]

    def __post_init__(self) -> None:
        settle(self)
        if not self.feature_bound.all():
            raise bad_setting(self, "bound", "a bound must be above 0")

    @property
    def n_features(self) -> int:
        """As many as inputs."""
        return self.n_inputs

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """The declared bound of each column."""
        return spread(self, "bound", self.n_inputs)

    def transform(self, X: Matrix) -> NDArray[Any]:
        """Return the rows of X, dense, after the checks."""
        rows = table_of(X, self.n_inputs)
        bound = self.feature_bound
        for place, block in blocks(rows, bytes_per_row=16 * self.n_inputs):
            refuse_outside(block, place.start, -bound, bound, "declare a wider bound")
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return dense.astype(np.uint8) if dense.dtype == np.bool_ else dense

    def settings(self) -> dict[str, object]:
        """Return the table that declares this map."""
        return table(self)
