"""Files of features and targets: LIBSVM, delimited text, and CIFAR's binary layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dealfl.datasets.readers.delimited import Columns
from dealfl.datasets.readers.content import Content
from dealfl.errors import BadInput

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Matrix = NDArray[Any] | csr_array[Any, tuple[int, int]]

__all__ = ["Cifar", "Libsvm", "Table", "TargetColumn"]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Features and targets of as many rows; `test` where the publisher set rows apart."""

    features: "Matrix"
    targets: NDArray[Any]
    test: "Table | None" = None

    @property
    def records(self) -> int:
        """How many rows were in the files, those of the test part included."""
        return len(self.targets) + (self.test.records if self.test else 0)

    def split(self, at: int) -> "Table":
        """Return the rows before `at`, with those from `at` on as their test part."""
        test = Table(self.features[at:], self.targets[at:])
        return Table(self.features[:at], self.targets[:at], test)


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A delimited text file, one column of which is the target.

    Examples
    --------
    >>> table = TargetColumn(Columns(width=3), target=0)([Content("tiny.csv", b"7,1,2\\n8,3,4")])
    >>> table.targets.tolist(), table.features.tolist()
    ([7.0, 8.0], [[1.0, 2.0], [3.0, 4.0]])
    """

    columns: Columns
    target: int = -1
    train_rows: int | None = None

    def __call__(self, contents: Sequence[Content]) -> Table:
        """Return the table in the one file given."""
        (content,) = contents
        values = self.columns.read(content)
        table = Table(np.delete(values, self.target, axis=1), values[:, self.target].copy())
        return table if self.train_rows is None else table.split(self.train_rows)


@dataclass(frozen=True, slots=True)
class Libsvm:
    """LIBSVM's text: a label, then index:value pairs, indices from 1 and ascending.

    Examples
    --------
    >>> table = Libsvm(n_features=3)([Content("tiny", b"1 1:0.5 3:2\\n2 2:1")])
    >>> table.targets.tolist(), table.features.tolist()
    ([1.0, 2.0], [[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]])
    """

    n_features: int
    labels: DTypeLike = np.float64
    sparse: bool = False

    def __call__(self, contents: Sequence[Content]) -> Table:
        """Return the table in the one file given; dense, unless `sparse`."""
        (content,) = contents
        labels: list[float] = []
        values: list[float] = []
        indices: list[int] = []
        starts = [0]
        for number, line in content.lines():
            label, *pairs = line.split()
            try:
                labels.append(_finite(label))
                self._add_pairs(pairs, indices, values)
            except ValueError as error:
                raise BadInput(f"{content.name}, line {number}: {error}") from None
            starts.append(len(indices))
        if not labels:
            raise BadInput(f"{content.name}: holds no rows; expected lines of LIBSVM text")
        return Table(self._matrix(values, indices, starts), np.array(labels).astype(self.labels))

    def _add_pairs(self, pairs: list[str], indices: list[int], values: list[float]) -> None:
        previous = 0
        for pair in pairs:
            index, colon, value = pair.partition(":")
            if not colon or not index.isdecimal():
                raise ValueError(f"{pair!r} is not an index:value pair")
            position = int(index)
            if not previous < position <= self.n_features:
                raise ValueError(
                    f"index {position} in {pair!r} is not above {previous} and at most "
                    f"{self.n_features}"
                )
            indices.append(position - 1)
            values.append(_finite(value))
            previous = position

    def _matrix(self, values: list[float], indices: list[int], starts: list[int]) -> "Matrix":
        shape = (len(starts) - 1, self.n_features)
        if self.sparse:
            from scipy.sparse import csr_array

            return csr_array((np.array(values), np.array(indices), np.array(starts)), shape)
        dense = np.zeros(shape)
        dense[np.repeat(np.arange(shape[0]), np.diff(starts)), indices] = values
        return dense


@dataclass(frozen=True, slots=True)
class Cifar:
    """CIFAR's binary layout: a label byte, then the red, green and blue planes of an image.

    The last file is the test part, as in the published archive.
    """

    classes: int = 10
    pixels: int = 3 * 32 * 32

    def __call__(self, contents: Sequence[Content]) -> Table:
        """Return the images of all files but the last, with the last as the test part."""
        *train, test = [self._rows(content) for content in contents]
        return self._table(train, self._table([test], None))

    @staticmethod
    def _table(parts: list[NDArray[np.uint8]], test: Table | None) -> Table:
        images = np.concatenate([rows[:, 1:] for rows in parts])
        return Table(images, np.concatenate([rows[:, 0] for rows in parts]), test)

    def _rows(self, content: Content) -> NDArray[np.uint8]:
        size = 1 + self.pixels
        count, rest = divmod(len(content.data), size)
        if rest or not count:
            raise BadInput(
                f"{content.name}: {len(content.data)} bytes are not whole rows of {size} bytes; "
                "the file is cut short"
            )
        rows = np.frombuffer(content.data, np.uint8).reshape(count, size)
        wrong = np.flatnonzero(rows[:, 0] >= self.classes)
        if wrong.size:
            label = int(rows[wrong[0], 0])
            raise BadInput(
                f"{content.name}, row {wrong[0] + 1}: label {label} is not below {self.classes}"
            )
        return rows


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not np.isfinite(value):
        raise ValueError(f"{text!r} is not a finite number")
    return value
