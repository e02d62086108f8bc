"""What every feature map is: a frozen Struct whose fields are its settings."""

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
Low = Annotated[PerColumn, Meta(description="lower end of the range of all columns, or of each")]
High = Annotated[PerColumn, Meta(description="upper end of the range of all columns, or of each")]
Seed = Annotated[
    int,
    Meta(ge=0, le=2**63 - 1, description="seed of the random weights, the same on every device"),
]


class FeatureMap(Struct, frozen=True, dict=True, tag_field="map"):
    """A fixed map from raw examples to features: a setting of the job, never fitted to data.

    The features of a row are the same on every machine, in every batch and with any number of
    threads: forgetting must subtract exactly what learning added.

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
        """The number of columns it gives."""
        raise NotImplementedError

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """The largest magnitude each feature can have, from the settings alone; never below 1
        unless declared so.
        """
        raise NotImplementedError

    def transform(self, X: Matrix) -> NDArray[Any]:
        """Return the features of each row, dense: learners multiply and count dense rows."""
        raise NotImplementedError

    def settings(self) -> dict[str, object]:
        """Return the table that declares this map; `feature_map` turns it into an equal one."""
        names = [name for name in keys_of(type(self)) if name != "n_inputs"]
        values = {name: getattr(self, name) for name in names}
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
        tag = self.__struct_config__.tag
        return {"map": tag, **{k: v for k, v in plain.items() if v is not None}}

    # -- for the maps themselves ----------------------------------------------------------------

    def bad(self, key: str, remedy: str) -> BadInput:
        """Return the error for a setting that cannot be used."""
        return BadInput(f"{key} is {getattr(self, key)!r}; {remedy}")

    def spread(self, key: str, count: int) -> NDArray[np.float64]:
        """Return one number for each of `count` columns from a number or a list."""
        value = getattr(self, key)
        if isinstance(value, tuple) and len(value) != count:
            raise self.bad(key, f"it has {len(value)} numbers for {count} columns")
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (count,))

    def range_of(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return `low` and `high` of each of `count` columns; low must lie below high."""
        low, high = self.spread("low", count), self.spread("high", count)
        usable = low < high
        if not usable.all():
            column = int(np.argmin(usable))
            remedy = f"high must lie above low, which is {low[column]:g} in column {column}"
            raise self.bad("high", remedy)
        return low, high

    def edges_of(self, count: int, parts: str) -> NDArray[np.float64]:
        """Return the upper edge of each of the equal parts of each column's range, columns x parts.

        `parts` is the setting that holds their number. Whole edges come out exact: the product is
        made before the division.
        """
        low, high = self.range_of(count)
        number = int(getattr(self, parts))
        steps = np.arange(1, number + 1)
        edges: NDArray[np.float64] = low[:, None] + (high - low)[:, None] * steps / number
        edges[:, -1] = high
        if not (np.diff(edges, axis=1, prepend=low[:, None]) > 0).all():
            raise self.bad(parts, "the range is too narrow for this number of parts")
        return edges
