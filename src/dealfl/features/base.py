"""The base class of feature maps: a frozen Struct whose fields are the settings of the map.

The input of a map is checked and read in blocks of rows, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from dealfl.errors import BadInput, OutOfBounds
from dealfl.settings import keys_of, normalise

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix


Matrix: TypeAlias = "NDArray[Any] | csr_array[Any] | csr_matrix[Any]"

_Number = Annotated[float, Meta(ge=-1e200, le=1e200)]  # no multiple of a range overflows
_PerColumn = _Number | Annotated[tuple[_Number, ...], Meta(min_length=1)]
Low = Annotated[
    _PerColumn, Meta(description="lower end of the range, one number or one per column")
]
High = Annotated[
    _PerColumn, Meta(description="upper end of the range, one number or one per column")
]
Seed = Annotated[
    int,
    Meta(ge=0, le=2**63 - 1, description="seed of the random weights, the same on every device"),
]

EXACT = 2**53  # float64 holds every whole number up to here: sums are exact in any order
EXACT_32 = 2**24  # the same for float32
_Magnitude = Annotated[float, Meta(ge=0, le=EXACT)]
Bound = _Magnitude | Annotated[tuple[_Magnitude, ...], Meta(min_length=1)]
BLOCK_BYTES = 16 * 2**20
Limit = float | NDArray[np.float64]
Block = tuple[slice, NDArray[np.float64]]


class FeatureMap(Struct, frozen=True, dict=True, tag_field="map"):
    """A fixed map from raw examples to features: a setting of the job, never fitted to data.

    The features of a row are the same on every machine, in every batch and with any number of
    threads, because forgetting must subtract exactly what learning added.

    Examples
    --------
    >>> from dealfl.features import feature_map
    >>> isinstance(feature_map({"map": "relu"}, n_inputs=64), FeatureMap)
    True
    """

    n_inputs: Annotated[int, Meta(ge=1, description="number of columns of the raw examples")]

    def __post_init__(self) -> None:
        """Check every setting and keep it in its plain form."""
        normalise(self)

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
        """Return the features of each row."""
        raise NotImplementedError

    @property
    def input_range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The lowest and the highest value of each column that `transform` takes; None: any."""
        return None

    def settings(self) -> dict[str, object]:
        """Return the table that declares this map; `feature_map` creates an equal map from it."""
        names = [name for name in keys_of(type(self)) if name != "n_inputs"]
        values = {name: getattr(self, name) for name in names}
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
        tag = self.__struct_config__.tag
        return {"map": tag, **{k: v for k, v in plain.items() if v is not None}}

    # -- for the maps themselves ----------------------------------------------------------------

    def _bad(self, key: str, remedy: str) -> BadInput:
        """Return the error for a setting that cannot be used, with its value and what to do."""
        return BadInput(f"{key} is {getattr(self, key)!r}; {remedy}")

    def _spread(self, key: str, count: int) -> NDArray[np.float64]:
        """Return one number per column from a setting that is a number or a list."""
        value = getattr(self, key)
        if isinstance(value, tuple) and len(value) != count:
            raise self._bad(key, f"it has {len(value)} numbers for {count} columns")
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (count,))

    def _range_of(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return `low` and `high` of each column; `low` must be below `high`."""
        low, high = self._spread("low", count), self._spread("high", count)
        usable = low < high
        if not usable.all():
            column = int(np.argmin(usable))
            remedy = f"it must be above low, which is {low[column]:g} in column {column}"
            raise self._bad("high", remedy)
        return low, high

    def _edges_of(self, count: int, parts: str) -> NDArray[np.float64]:
        """Return the upper edges of equal parts of each column's range, columns by parts.

        The product is computed before the division, so integer edges are exact.
        """
        low, high = self._range_of(count)
        number = int(getattr(self, parts))
        steps = np.arange(1, number + 1)
        edges: NDArray[np.float64] = low[:, None] + (high - low)[:, None] * steps / number
        edges[:, -1] = high
        if not (np.diff(edges, axis=1, prepend=low[:, None]) > 0).all():
            raise self._bad(parts, "the range is too narrow for this number of parts")
        return edges


def table_of(X: Matrix, n_inputs: int) -> Matrix:
    """Return X as an array or CSR matrix after a check of its shape and type.

    Examples
    --------
    >>> table_of([[1, 2, 3]], n_inputs=2)
    Traceback (most recent call last):
    dealfl.errors.BadInput: X has 3 columns; this map takes 2
    """
    rows: Matrix = checked_csr(X, "X") if hasattr(X, "tocsr") else _as_array(X)
    if rows.ndim != 2:
        raise BadInput(f"X has shape {rows.shape}; it must have two dimensions, a row per example")
    if rows.shape[1] != n_inputs:
        raise BadInput(f"X has {rows.shape[1]} columns; this map takes {n_inputs}")
    if rows.dtype.kind not in "biuf":
        raise BadInput(f"X has dtype {rows.dtype}; it must hold real numbers")
    return rows


def checked_csr(X: object, what: str) -> csr_array[Any]:
    """Return a sparse table as CSR; scipy reads beyond arrays that do not fit each other.

    Parameters
    ----------
    X : sparse array or matrix
        Table in any format; it is not changed.
    what : str
        Its name in errors.

    Returns
    -------
    csr_array
        The table.

    Raises
    ------
    BadInput
        Its arrays do not fit each other, or it is not a table.
    """
    from scipy import sparse

    try:
        _require_indices(X)
        matrix: csr_array[Any] = sparse.csr_array(X)  # type: ignore[call-overload]
        if matrix.ndim == 2:
            matrix.check_format(full_check=True)
    except (
        TypeError,
        ValueError,
        IndexError,
        OverflowError,
        AttributeError,
        NotImplementedError,
    ) as error:
        raise BadInput(f"{what} is not a valid sparse table: {error}") from None
    if matrix.ndim != 2 or matrix.indptr[-1] < 0:
        raise BadInput(f"{what} is not a sparse table; its shape is {matrix.shape}")
    return matrix


def _require_indices(X: Any) -> None:  # noqa: ANN401
    """Raise an error if indices are no integers, or do not fit a table that becomes another one."""
    for name in ("indices", "indptr") if X.format in ("csr", "csc", "bsr") else ():
        kind = np.asarray(getattr(X, name)).dtype
        if kind.kind != "i":
            raise ValueError(f"its {name} are {kind}, not int32 or int64")
    if X.format in ("csc", "bsr"):
        copy(X).check_format(full_check=True)  # which trims the arrays of what it checks
    if X.format != "coo":
        return
    for indices, size in zip(X.coords, X.shape, strict=True):
        if len(indices) != len(X.data) or np.any((indices < 0) | (indices >= size)):
            raise ValueError("an index is outside its shape, or has no value")


def blocks(X: Matrix, bytes_per_row: int) -> Iterator[Block]:
    """Yield blocks of rows of a checked X as finite, read-only float64."""
    n_rows, n_inputs = X.shape
    step = max(1, BLOCK_BYTES // (bytes_per_row + 16 * n_inputs))
    for first in range(0, n_rows, step):
        rows = slice(first, min(first + step, n_rows))
        part = X[rows]
        dense = part.toarray() if hasattr(part, "toarray") else part
        with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf: an error below
            block = dense.astype(np.float64, copy=False)
        _refuse_not_finite(block, first)
        yield rows, block


def refuse_outside(
    block: NDArray[np.float64], first: int, low: Limit, high: Limit, remedy: str
) -> None:
    """Raise `OutOfBounds` if a block, which starts at row `first` of X, exceeds low or high."""
    outside = (block < low) | (block > high)
    if outside.any():
        row, column = _first_true(outside)
        lowest = np.broadcast_to(low, block.shape)[row, column]
        highest = np.broadcast_to(high, block.shape)[row, column]
        raise OutOfBounds(
            f"X[{first + row}, {column}] is {block[row, column]}, "
            f"outside {lowest} .. {highest}; {remedy}"
        )


def refuse_fractions(block: NDArray[np.float64], first: int, remedy: str) -> None:
    """Raise `BadInput` if a block has a value that is not an integer."""
    fraction = block != np.rint(block)
    if fraction.any():
        row, column = _first_true(fraction)
        value = block[row, column]
        raise BadInput(f"X[{first + row}, {column}] is {value}, not a whole number; {remedy}")


def _refuse_not_finite(block: NDArray[np.float64], first: int) -> None:
    finite = np.isfinite(block)
    if not finite.all():
        row, column = _first_true(~finite)
        value = block[row, column]
        raise BadInput(f"X[{first + row}, {column}] is {value}; it must be a finite number")


def _first_true(mask: NDArray[np.bool_]) -> tuple[int, int]:
    row, column = np.unravel_index(np.argmax(mask), mask.shape)
    return int(row), int(column)


def _as_array(X: object) -> NDArray[Any]:
    try:
        return np.asarray(X)
    except ValueError as error:
        raise BadInput(f"X is not a table of numbers: {error}") from error
