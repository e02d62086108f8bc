"""What callers pass, checked and converted: matrices, data frames, targets and classes.

Data frames and series are recognised by their attributes; no package is imported for them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput
from dealfl.exact import FixedPoint
from dealfl.features import checked_csr
from dealfl.settings import As, Numbers

if TYPE_CHECKING:
    from scipy import sparse

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Matrix: TypeAlias = "NDArray[Any] | sparse.csr_array"

FeatureBound = Annotated[
    float | ArrayLike,
    As(Numbers),
    Meta(description="largest magnitude of a feature after the offset: a number, or one each"),
]
Offset = Annotated[
    float | ArrayLike,
    As(Numbers),
    Meta(description="number subtracted from a feature: a number, or one each"),
]
FractionBits = Annotated[
    int,
    Meta(ge=1, description="bits that features are rounded to; fewer give smaller updates"),
]
Clip = Annotated[
    bool, Meta(description="move values outside the bounds to the bounds instead of an error")
]

_NUMERIC = "biuf"
_FLOATS = np.dtype(np.float64)
_BLOCK_ROWS = 2048
_FEW = 8  # labels that are looked up one by one
_MAX_NUMBERS = 1 << 16
_SHOWN = 5  # names in an error
_NUMBERS = (bool, int, float, Decimal, np.number, np.bool_)


def require_integer(value: object, name: str, low: int, high: int) -> int:
    """Return a setting as an int, or raise `BadInput` with its name and limits.

    Examples
    --------
    >>> require_integer(0, "k", 1, 100)
    Traceback (most recent call last):
    dealfl.errors.BadInput: k is 0; it must be a whole number from 1 to 100
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not low <= int(value) <= high:  # type: ignore[call-overload]
        shown = "a sparse table" if is_sparse(value) else repr(value)
        raise BadInput(f"{name} is {shown}; it must be a whole number from {low} to {high}")
    return int(value)  # type: ignore[call-overload,no-any-return]


def require_amount(value: object, name: str, *, zero: bool) -> float:
    """Return a setting as a finite float > 0, or ≥ 0; raise `BadInput` with its name otherwise."""
    number = _as_float(value) if isinstance(value, _NUMBERS) else np.nan
    if not (np.isfinite(number) and (number > 0 or (zero and number == 0))):
        raise BadInput(f"{name} is {value!r}; it must be a finite number {'≥' if zero else '>'} 0")
    return number


def as_matrix(X: object, columns: int) -> Matrix:
    """Return a table of numbers as an array or CSR matrix; the input is not changed.

    Parameters
    ----------
    X : array_like, csr_array or DataFrame
        One row per example.
    columns : int
        Expected number of columns.

    Returns
    -------
    ndarray or csr_array
        The table.

    Raises
    ------
    BadInput
        `X` is not a table of real numbers with this number of columns.
    """
    if type(X) is np.ndarray and X.dtype is _FLOATS and X.shape[1:] == (columns,):
        return X
    matrix: Matrix = _as_csr(X) if is_sparse(X) else as_array(X, "X")
    if matrix.dtype.kind not in _NUMERIC:
        raise BadInput(f"X holds {matrix.dtype} values; it must hold real numbers")
    if matrix.ndim != 2:
        raise BadInput(f"X has shape {matrix.shape}; it must be a table with a row per example")
    if matrix.shape[1] != columns:
        problem = f"X has {matrix.shape[1]} columns; the model has n_features={columns}"
        raise BadInput(problem, rule=problem)
    return matrix


def is_sparse(X: object) -> bool:
    """Return whether X is a sparse table of scipy; nothing is one before scipy is imported.

    Parameters
    ----------
    X : object
        Any object.

    Returns
    -------
    bool
        True for a sparse array or matrix.

    Examples
    --------
    >>> is_sparse(np.eye(2))
    False
    """
    tables = None if isinstance(X, np.ndarray) else sys.modules.get("scipy.sparse")
    return tables is not None and bool(tables.issparse(X))


def as_array(values: object, what: str) -> NDArray[Any]:
    """Return nested lists, an array, a series or a data frame as an array."""
    masked = sys.modules.get("numpy.ma")  # nothing is masked before it is loaded
    if masked is not None and isinstance(values, masked.MaskedArray):
        values = masked.filled(values.astype(object), None)  # what is masked is missing
    elif isinstance(values, np.ndarray):
        return values
    if is_frame(values):
        return frame_matrix(values)
    try:
        return column_array(values)
    except ValueError:
        raise BadInput(f"{what} has rows of different lengths; pass a table") from None


def _as_csr(X: object) -> sparse.csr_array:
    matrix = checked_csr(X, "X")
    if matrix.dtype.kind in _NUMERIC and not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def dense_blocks(X: Matrix, rows: int) -> Iterator[tuple[int, Floats]]:
    """Yield a table in dense blocks of rows.

    Parameters
    ----------
    X : ndarray or csr_array
        Table, for example a result of `as_matrix`.
    rows : int
        Largest number of rows of a block.

    Yields
    ------
    first : int
        Number of the first row of the block.
    block : ndarray of float64
        The rows.
    """
    for first in range(0, X.shape[0], rows):
        part = X[first : first + rows]
        dense = part if isinstance(part, np.ndarray) else part.toarray()
        with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf
            block = np.asarray(dense, dtype=np.float64)
        yield first, block


def as_vector(y: object, rows: int | None, what: str = "y") -> NDArray[Any]:
    """Return `y` as a vector of one value per row."""
    return require_vector(as_array(only_column(y), what), rows, what)


def require_vector(vector: NDArray[Any], rows: int | None, what: str) -> NDArray[Any]:
    """Return a vector, or raise `BadInput` if it has not one value per row."""
    count = vector.size if rows is None else rows
    if vector.shape != (count,):
        raise BadInput(f"{what} has shape {vector.shape}; {count} rows need shape ({count},)")
    return vector


def only_column(y: Any) -> Any:  # noqa: ANN401
    """Return the column of a data frame of one column, and anything else as it is."""
    if isinstance(y, np.ndarray) or not is_frame(y) or len(y.columns) != 1:
        return y
    return y[y.columns[0]]


def quantised(X: object, grid: FixedPoint, *, clip: bool) -> NDArray[np.int32]:
    """Return all rows of `X` on their grid, as 32-bit integers."""
    matrix = as_matrix(X, len(grid.bound))
    points = np.empty(matrix.shape, dtype=np.int32)
    for first, block in dense_blocks(matrix, _BLOCK_ROWS):
        points[first : first + len(block)] = grid.quantise(block, first, clip=clip)
    return points


# -- data frames ------------------------------------------------------------------------------


def is_frame(values: object) -> bool:
    """Return whether values are a data frame: a table with named columns.

    Parameters
    ----------
    values : object
        Any object.

    Returns
    -------
    bool
        True for a data frame of any package.

    Examples
    --------
    >>> is_frame(np.zeros((2, 2)))
    False
    """
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def is_absent(value: object) -> bool:
    """Return whether a value is missing: None, nan, or the NA of a data frame.

    Parameters
    ----------
    value : object
        Value of a cell.

    Returns
    -------
    bool
        True if the value is missing.

    Examples
    --------
    >>> [is_absent(value) for value in (None, float("nan"), 0, "")]
    [True, True, False, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and value != value


def names_of(X: object) -> tuple[str, ...] | None:
    """Return the column names of a data frame; None without names or if a name is not text."""
    if type(X) is np.ndarray or not is_frame(X):
        return None
    names = tuple(X.columns)  # type: ignore[attr-defined]
    return names if all(isinstance(name, str) for name in names) else None


def require_names(learned: tuple[str, ...], X: object) -> None:
    """Raise `BadInput` if the columns of a frame are not those of the model, in the same order."""
    given = names_of(X) or ()
    if not given or given == learned:
        return
    missing = [name for name in learned if name not in given]
    unknown = [name for name in given if name not in learned]
    if not missing and not unknown and len(given) == len(learned):
        wrong = next(index for index, name in enumerate(learned) if given[index] != name)
        raise BadInput(
            f"the columns are in another order: column {wrong} is {given[wrong]!r}, but the "
            f"model learned {learned[wrong]!r}; pass X[list(model.feature_names)]"
        )
    parts = [f"missing: {_listed(missing)}"] if missing else []
    parts += [f"unknown: {_listed(unknown)}"] if unknown else []
    problem = "; ".join(parts) or f"{len(given)} columns instead of {len(learned)}"
    raise BadInput(f"the columns are not those of the model; {problem}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more


def frame_columns(frame: Any) -> list[tuple[str, NDArray[Any]]]:  # noqa: ANN401
    """Return names and columns of a data frame.

    Parameters
    ----------
    frame : DataFrame
        Data frame of any package.

    Returns
    -------
    list of (str, ndarray)
        Name and values of each column.

    Raises
    ------
    BadInput
        Two columns have the same name.
    """
    names = [str(name) for name in frame.columns]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise BadInput(f"the frame has two columns named {name!r}; rename one of them")
    return [
        (name, column_array(frame[key])) for name, key in zip(names, frame.columns, strict=True)
    ]


def frame_matrix(frame: Any) -> NDArray[Any]:  # noqa: ANN401
    """Return a frame of numbers as a matrix; missing values are nan."""
    plain = np.asarray(frame)
    if plain.dtype.kind in _NUMERIC:
        return np.ascontiguousarray(plain)  # matrix products must not depend on the memory layout
    columns = frame_columns(frame)
    for name, column in columns:
        if column.dtype.kind not in _NUMERIC:
            raise BadInput(
                f"column {name!r} holds {_kind(column)}; it must hold real numbers: encode it as "
                "numbers, or drop it"
            )
    if not columns:
        return np.empty((len(frame), 0))
    return np.column_stack([column.astype(np.float64) for _, column in columns])


def _kind(column: NDArray[Any]) -> str:
    return "text" if column.dtype.kind in "OU" else f"{column.dtype} values"


def column_array(values: object) -> NDArray[Any]:
    """Return a series or a nested sequence as an array.

    Parameters
    ----------
    values : object
        Series or nested sequence.

    Returns
    -------
    ndarray
        Numbers are numeric and missing numbers are nan; other objects are unchanged.

    Examples
    --------
    >>> column_array(np.array([1, 2.5, None], dtype=object)).tolist()
    [1.0, 2.5, nan]
    """
    try:
        array = np.asarray(values)
    except OverflowError:  # an integer beyond all floats, beside a float
        array = np.array(values, dtype=object)
    return _plain_numbers(array) if array.dtype.kind == "O" else array


def _plain_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return objects that are numbers as a numeric array; other objects unchanged."""
    values = [np.nan if is_absent(value) else value for value in array.ravel().tolist()]
    if not all(isinstance(value, _NUMBERS) for value in values):
        return array
    plain = np.array([float(value) if isinstance(value, Decimal) else value for value in values])
    if plain.dtype.kind == "O":  # integers of more than 64 bits
        plain = np.array([_as_float(value) for value in values], dtype=np.float64)
    return plain.reshape(array.shape)


def _as_float(value: Any) -> float:  # noqa: ANN401
    try:
        return float(value)
    except OverflowError:
        return float(np.inf)


# -- classes ----------------------------------------------------------------------------------


class Labels:
    """The classes of a job, in its order; they are settings, never derived from data.

    Parameters
    ----------
    classes : array_like
        Distinct numbers or strings.

    Raises
    ------
    BadInput
        The classes are not distinct numbers or strings.

    Examples
    --------
    >>> Labels(["ham", "spam"]).encode(["spam", "ham"]).tolist()
    [1, 0]
    """

    def __init__(self, classes: ArrayLike | Sequence[object]) -> None:
        wrong = f"classes is {classes!r}; it must be a list of numbers or of strings"
        try:
            given = list(classes)  # type: ignore[arg-type]
            values = np.array(given)
        except (TypeError, ValueError):
            raise BadInput(wrong) from None
        plain = values.ndim == 1 and len(values) and values.dtype.kind in _NUMERIC + "U"
        if not plain or values.tolist() != given:
            raise BadInput(wrong)
        self.values: NDArray[Any] = values
        self._order = np.argsort(values, kind="stable")
        self._sorted = values[self._order]
        self._codes = {value: code for code, value in enumerate(values.tolist())}
        if len(self._codes) < len(values):
            raise BadInput(f"classes is {values.tolist()!r}; classes must be distinct")
        self._by_number, self._every = self._numbered(), np.arange(len(values))

    def _numbered(self) -> Int64s | None:
        """Return the code of each number from the smallest class on, if there are not too many."""
        if self.values.dtype.kind not in "iu":
            return None
        first, last = int(self._sorted[0]), int(self._sorted[-1])
        if last - first > _MAX_NUMBERS:
            return None
        codes = np.full(last - first + 1, -1, dtype=np.int64)
        codes[self._offsets(self.values)] = np.arange(len(self.values))
        return codes

    def _offsets(self, labels: NDArray[Any]) -> Int64s:
        """Return how far labels are above the lowest class, modulo 2^64 and so for any type."""
        lowest = self._sorted[:1].astype(np.uint64)
        return (labels.astype(np.uint64) - lowest).astype(np.int64)

    def _look_up(self, labels: NDArray[Any], codes: Int64s) -> Int64s:
        inside = (labels >= self._sorted[0]) & (labels <= self._sorted[-1])
        if inside.all():
            return np.asarray(codes[self._offsets(labels)])
        matches = np.full(len(labels), -1, dtype=np.int64)
        matches[inside] = codes[self._offsets(labels[inside])]
        return matches

    def __len__(self) -> int:
        return len(self.values)

    def tolist(self) -> list[Any]:
        """Return the classes as Python values.

        Returns
        -------
        list
            The classes.
        """
        return list(self.values.tolist())

    def encode(self, y: object, rows: int | None = None) -> Int64s:
        """Return the position of each label among the classes.

        Parameters
        ----------
        y : array_like
            Labels.
        rows : int, optional
            Expected number of labels.

        Returns
        -------
        ndarray of int64
            One position per label.

        Raises
        ------
        BadInput
            A label is not a class, or the number of labels is wrong.
        """
        if rows == 1 and type(y) is np.ndarray and y.shape == (1,):
            code = self._code(y.item())
            if code >= 0:
                return np.array((code,))
        labels = require_vector(_as_labels(only_column(y)), rows, "y")
        if len(labels) > _FEW and self._by_number is not None and labels.dtype.kind in "iu":
            codes = self._look_up(labels, self._by_number)
        elif len(labels) > _FEW and self._compares_exactly(labels):
            indices = np.minimum(np.searchsorted(self._sorted, labels), len(self) - 1)
            codes = np.where(self._sorted[indices] == labels, self._order[indices], -1)
        else:
            codes = np.array([self._code(label) for label in labels.tolist()], dtype=np.int64)
        wrong = np.flatnonzero(codes < 0)
        if len(wrong):
            raise self._unknown(int(wrong[0]), labels[wrong[0]])
        return codes

    def numbered(self, y: object, rows: int) -> tuple[Int64s, int, Int64s]:
        """Return numbers, the lowest class and the code of each number from it on, for a loop.

        Whole numbers are not checked: one without a class has the code -1, or none.

        Parameters
        ----------
        y, rows
            See `encode`.

        Returns
        -------
        tuple of (ndarray of int64, int, ndarray of int64)
            Numbers, the lowest of the classes, and codes.
        """
        numbers, kinds = self._by_number, {self.values.dtype.kind}
        if numbers is not None and type(y) is np.ndarray and kinds == {y.dtype.kind, "i"}:
            return require_vector(y, rows, "y").astype(np.int64), int(self._sorted[0]), numbers
        return self.encode(y, rows), 0, self._every

    def _compares_exactly(self, labels: NDArray[Any]) -> bool:
        """Return whether numpy compares labels and classes without a conversion that rounds."""
        kinds = {labels.dtype.kind, self._sorted.dtype.kind}
        if kinds <= set("biu"):
            return np.promote_types(labels.dtype, self._sorted.dtype).kind != "f"
        return kinds in ({"U"}, {"f"})

    def _code(self, label: object) -> int:
        try:
            return -1 if isinstance(label, complex) else self._codes.get(label, -1)
        except TypeError:  # nothing that can be a class
            return -1

    def decode(self, codes: Int64s) -> NDArray[Any]:
        """Return the classes at some positions.

        Parameters
        ----------
        codes : ndarray of int64
            Positions among the classes.

        Returns
        -------
        ndarray
            One class per position.
        """
        return np.asarray(self.values[codes])

    def share_right(self, predicted: NDArray[Any], y: object) -> float:
        """Return the fraction of predicted labels that are correct.

        Parameters
        ----------
        predicted : ndarray
            Predicted labels.
        y : array_like
            Actual labels.

        Returns
        -------
        float
            A number in [0, 1]; nan if there are no rows.
        """
        actual = self.decode(self.encode(y, len(predicted)))
        return float(np.mean(predicted == actual)) if len(predicted) else float("nan")

    def _unknown(self, row: int, label: object) -> BadInput:
        shown = label.item() if isinstance(label, np.generic) else label
        classes = ", ".join(repr(value) for value in self.values.tolist()[:20])
        return BadInput(f"row {row} has class {shown!r}; known: {classes}", "its class is unknown")


def _as_labels(y: object) -> NDArray[Any]:
    """Return labels as they are: in an array of numbers and strings, numpy makes "1" of 1."""
    nested = (list, tuple, np.ndarray)
    if isinstance(y, list | tuple) and not any(isinstance(label, nested) for label in y):
        return np.fromiter(y, dtype=object, count=len(y))
    is_array = type(y) is np.ndarray or hasattr(y, "to_numpy")
    return np.asarray(y) if is_array else as_array(y, "y")
