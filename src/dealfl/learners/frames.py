"""Data frames and series, recognised by their attributes; no package is imported for them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput

__all__ = [
    "column_array", "frame_columns", "frame_matrix", "is_absent", "is_frame", "names_of",
    "require_names",
]  # fmt: skip

_SHOWN = 5
_NUMBERS = (bool, int, float, Decimal, np.number, np.bool_)


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
    given = (names_of(X) if learned else None) or ()
    if not given or given == learned:
        return
    missing = [name for name in learned if name not in given]
    unknown = [name for name in given if name not in learned]
    if not missing and not unknown and len(given) == len(learned):
        wrong = next(place for place, name in enumerate(learned) if given[place] != name)
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
    for place, name in enumerate(names):
        if name in names[:place]:
            raise BadInput(f"the frame has two columns named {name!r}; rename one of them")
    return [
        (name, column_array(frame[key])) for name, key in zip(names, frame.columns, strict=True)
    ]


def frame_matrix(frame: Any) -> NDArray[Any]:  # noqa: ANN401
    """Return a frame of numbers as a matrix; missing values are nan."""
    plain = np.asarray(frame)
    if plain.dtype.kind in "biuf":
        return np.ascontiguousarray(plain)  # matrix products must not depend on the memory layout
    columns = frame_columns(frame)
    for name, column in columns:
        if column.dtype.kind not in "biuf":
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
