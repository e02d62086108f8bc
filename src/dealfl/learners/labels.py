"""The classes of a job, and labels of examples as their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput
from dealfl.learners.inputs import as_array, only_column, require_vector

__all__ = ["Labels"]

Int64s = NDArray[np.int64]

_NUMERIC = "biuf"
_FEW = 8  # labels that are looked up one by one
_MAX_NUMBERS = 1 << 16


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
        given = list(classes)  # type: ignore[arg-type]
        values = np.array(given)
        plain = values.ndim == 1 and len(values) and values.dtype.kind in _NUMERIC + "U"
        if not plain or values.tolist() != given:
            raise BadInput(f"classes is {given!r}; it must be a list of numbers or of strings")
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
        codes[(self.values - self._sorted[0]).astype(np.int64)] = np.arange(len(self.values))
        return codes

    def _look_up(self, labels: NDArray[Any], codes: Int64s) -> Int64s:
        first, last = self._sorted[0], self._sorted[-1]
        if len(labels) and first <= labels.min() and labels.max() <= last:
            return np.asarray(codes[(labels - first).astype(np.int64)])
        inside = (labels >= first) & (labels <= last)
        found = np.full(len(labels), -1, dtype=np.int64)
        found[inside] = codes[(labels[inside] - first).astype(np.int64)]
        return found

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
            place = np.minimum(np.searchsorted(self._sorted, labels), len(self) - 1)
            codes = np.where(self._sorted[place] == labels, self._order[place], -1)
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
        if numbers is not None and isinstance(y, np.ndarray) and kinds == {y.dtype.kind, "i"}:
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
        known = ", ".join(repr(value) for value in self.values.tolist()[:20])
        return BadInput(f"row {row} has class {shown!r}; known: {known}", "its class is unknown")


def _as_labels(y: object) -> NDArray[Any]:
    """Return labels as they are: in an array of numbers and strings, numpy makes "1" of 1."""
    nested = (list, tuple, np.ndarray)
    if isinstance(y, list | tuple) and not any(isinstance(label, nested) for label in y):
        return np.fromiter(y, dtype=object, count=len(y))
    is_array = isinstance(y, np.ndarray) or hasattr(y, "to_numpy")
    return np.asarray(y) if is_array else as_array(y, "y")
