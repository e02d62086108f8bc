"""LIBSVM text: a label, then index:value pairs with ascending indices from 1."""

import math
import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dealfl.data.readers.content import Content, open_text
from dealfl.data.readers.delimited import BLOCK_CHARACTERS
from dealfl.errors import needs_extra

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DENSE_CELLS = 50_000_000  # of a table that is not sparse
_LOOKED_AT = 20


def read_libsvm(
    source: Path | Content, encoding: str = "utf-8"
) -> Iterator[list[tuple[int, list[str]]]]:
    """Read LIBSVM text in blocks of rows.

    Examples
    --------
    >>> list(read_libsvm(Content("tiny", b"1 1:0.5 3:2 # good\\n\\n2 2:1")))
    [[(1, ['1', '1:0.5', '3:2']), (3, ['2', '2:1'])]]
    """
    first = 1
    with open_text(source, encoding) as text:
        while lines := text.readlines(BLOCK_CHARACTERS):
            words = (line.partition("#")[0].split() for line in lines)
            yield [(line, row) for line, row in enumerate(words, first) if row]
            first += len(lines)


def read_pairs(words: Sequence[str], n_features: int) -> tuple[list[int], list[float]]:
    """Parse index:value pairs.

    Examples
    --------
    >>> read_pairs(["1:0.5", "3:2"], n_features=3)
    ([0, 2], [0.5, 2.0])
    """
    indices: list[int] = []
    values: list[float] = []
    previous = 0
    for word in words:
        index, colon, value = word.partition(":")
        if not colon or not index.isdecimal():
            raise ValueError(f"{word[:40]!r} is not an index:value pair")
        position = int(index)
        if not previous < position <= n_features:
            raise ValueError(
                f"index {position} in {word[:40]!r} must be above {previous} and at most "
                f"{n_features}"
            )
        indices.append(position - 1)
        values.append(read_finite(value))
        previous = position
    return indices, values


def looks_like_libsvm(lines: Sequence[str]) -> bool:
    """Return whether lines are in LIBSVM's format, judged by the first of them.

    Examples
    --------
    >>> looks_like_libsvm(["1 1:0.5 3:2", "-1"]), looks_like_libsvm(["1,0.5,2"])
    (True, False)
    """
    pairs = 0
    for line in lines[:_LOOKED_AT]:
        words = line.partition("#")[0].split()
        try:
            pairs += len(read_pairs(words[1:], sys.maxsize)[0])
        except ValueError:
            return False
    return pairs > 0


def read_finite(text: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a number") from None
    if not math.isfinite(value) or "_" in text:
        raise ValueError(f"{text[:40]!r} is not a finite number")
    return value


class SparseRows:
    """Rows of indices and values, collected one at a time."""

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self._indices, self._values, self._starts = array("q"), array("d"), array("q", [0])

    def add(self, indices: list[int], values: list[float]) -> None:
        """Add a row."""
        self._indices.extend(indices)
        self._values.extend(values)
        self._starts.append(len(self._indices))

    def matrix(self) -> "NDArray[np.float64] | csr_array[np.float64, tuple[int, int]]":
        """Return all rows; small tables are dense."""
        rows, columns = len(self._starts) - 1, self._n_features
        if rows * columns <= DENSE_CELLS:
            return self.dense()
        with needs_extra("scipy", f"a table of {rows:,} rows and {columns:,} features"):
            from scipy.sparse import csr_array
        parts = np.array(self._values), np.array(self._indices), np.array(self._starts)
        return csr_array(parts, (rows, columns))

    def dense(self) -> NDArray[np.float64]:
        """Return all rows with all their features."""
        lengths = np.diff(np.array(self._starts))
        table = np.zeros((len(lengths), self._n_features))
        table[np.repeat(np.arange(len(lengths)), lengths), np.array(self._indices)] = self._values
        return table
