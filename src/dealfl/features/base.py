"""The base class of feature maps: a frozen Struct whose fields are the settings of the map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.settings import keys_of, settle

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix

__all__ = ["FeatureMap", "High", "Low", "Matrix", "PerColumn", "Seed"]

Matrix: TypeAlias = "NDArray[Any] | csr_array[Any] | csr_matrix[Any]"

_Number = Annotated[float, Meta(ge=-1e200, le=1e200)]  # no multiple of a range overflows
PerColumn = _Number | Annotated[tuple[_Number, ...], Meta(min_length=1)]
Low = Annotated[PerColumn, Meta(description="lower end of the range, one number or one per column")]
High = Annotated[
    PerColumn, Meta(description="upper end of the range, one number or one per column")
]
Seed = Annotated[
    int,
    Meta(ge=0, le=2**63 - 1, description="seed of the random weights, the same on every device"),
]


class FeatureMap(Struct, frozen=True, dict=True, tag_field="map"):
    """A fixed map from raw examples to features: a setting of the job, never fitted to data.

    The features of a row are the same on every machine, in every batch and with any number of
    threads, because forgetting must subtract exactly what learning added.

    Parameters
    ----------
    n_inputs : int
        Number of columns of the raw examples.

    Examples
    --------
    >>> from dealfl.features import feature_map
    >>> isinstance(feature_map({"map": "relu"}, n_inputs=64), FeatureMap)
    True
    """

    n_inputs: Annotated[int, Meta(ge=1, description="number of columns of the raw examples")]

    def __post_init__(self) -> None:
        """Check every setting and keep it in its plain form."""
        settle(self)

    @property
    def n_features(self) -> int:
        """The number of features."""
        raise NotImplementedError

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """The largest magnitude of each feature, computed from the settings alone.

        Maps that compute features return at least 1; maps that pass a column on return its bound.
        """
        raise NotImplementedError

    def transform(self, X: Matrix) -> NDArray[Any]:
        """Return the features of each row.

        Parameters
        ----------
        X : ndarray or csr_array
            Raw examples, one row each.

        Returns
        -------
        ndarray
            Dense features, because learners multiply and count dense rows.

        Raises
        ------
        BadInput
            The shape, the type or a value of `X` cannot be used.
        """
        raise NotImplementedError

    @property
    def input_range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The lowest and the highest value of each column that `transform` takes; None: any."""
        return None

    def settings(self) -> dict[str, object]:
        """Return the table that declares this map.

        Returns
        -------
        dict of str to object
            `feature_map` creates an equal map from it.
        """
        names = [name for name in keys_of(type(self)) if name != "n_inputs"]
        values = {name: getattr(self, name) for name in names}
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
        tag = self.__struct_config__.tag
        return {"map": tag, **{k: v for k, v in plain.items() if v is not None}}

    # -- for the maps themselves ----------------------------------------------------------------

    def bad(self, key: str, remedy: str) -> BadInput:
        """Return the error for a setting that cannot be used.

        Parameters
        ----------
        key : str
            Name of the setting.
        remedy : str
            What is wrong or what to do, for the end of the message.

        Returns
        -------
        BadInput
            The error, which names the setting and its value.
        """
        return BadInput(f"{key} is {getattr(self, key)!r}; {remedy}")

    def spread(self, key: str, count: int) -> NDArray[np.float64]:
        """Return the value of a setting for each column.

        Parameters
        ----------
        key : str
            Name of a setting that is a number or a list.
        count : int
            Number of columns.

        Returns
        -------
        ndarray of float64
            One number per column.

        Raises
        ------
        BadInput
            The list has another length than `count`.
        """
        value = getattr(self, key)
        if isinstance(value, tuple) and len(value) != count:
            raise self.bad(key, f"it has {len(value)} numbers for {count} columns")
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (count,))

    def range_of(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return `low` and `high` of each column.

        Parameters
        ----------
        count : int
            Number of columns.

        Returns
        -------
        low, high : ndarray of float64
            One number per column.

        Raises
        ------
        BadInput
            `low` is not below `high` in some column.
        """
        low, high = self.spread("low", count), self.spread("high", count)
        usable = low < high
        if not usable.all():
            column = int(np.argmin(usable))
            remedy = f"it must be above low, which is {low[column]:g} in column {column}"
            raise self.bad("high", remedy)
        return low, high

    def edges_of(self, count: int, parts: str) -> NDArray[np.float64]:
        """Return the upper edges of equal parts of each column's range.

        The product is computed before the division, so integer edges are exact.

        Parameters
        ----------
        count : int
            Number of columns.
        parts : str
            Name of the setting that holds the number of parts.

        Returns
        -------
        ndarray of float64
            Columns by parts.

        Raises
        ------
        BadInput
            The range is too narrow for this number of parts.
        """
        low, high = self.range_of(count)
        number = int(getattr(self, parts))
        steps = np.arange(1, number + 1)
        edges: NDArray[np.float64] = low[:, None] + (high - low)[:, None] * steps / number
        edges[:, -1] = high
        if not (np.diff(edges, axis=1, prepend=low[:, None]) > 0).all():
            raise self.bad(parts, "the range is too narrow for this number of parts")
        return edges
