"""What every feature map offers."""

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix

__all__ = ["FeatureMap", "Matrix"]

Matrix: TypeAlias = "NDArray[Any] | csr_array[Any] | csr_matrix[Any]"


@runtime_checkable
class FeatureMap(Protocol):
    """A fixed map from raw examples to features: a setting of the job, never fitted to data.

    The features of a row are the same on every machine, in every batch and with any number of
    threads: forgetting must subtract exactly what learning added.

    >>> from dealfl.features import feature_map
    >>> isinstance(feature_map({"map": "relu"}, n_inputs=64), FeatureMap)
    True
    """

    @property
    def n_inputs(self) -> int:
        """The number of columns it takes."""

    @property
    def n_features(self) -> int:
        """The number of columns it gives."""

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """The largest magnitude each feature can have, from the settings alone; never below 1
        unless declared so.
        """

    def transform(self, X: Matrix) -> NDArray[Any]:
        """Return the features of each row, dense: learners multiply and count dense rows."""

    def settings(self) -> dict[str, object]:
        """Return the table that declares this map; `feature_map` turns it into an equal one."""
