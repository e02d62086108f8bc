"""The user's own LIBSVM file: a label, then index:value pairs, one example per row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from scipy.sparse import csr_array

from dealfl.data import Dataset, Domain, Examples, Task
from dealfl.data.readers import (
    Content,
    Encoding,
    SparseRows,
    read_libsvm,
    read_number,
    read_pairs,
)
from dealfl.data.sources.base import Classes, Source, TargetBound, require_one_target
from dealfl.data.sources.memory import MemoryRows
from dealfl.data.sources.quarantine import Quarantine, Quarantined
from dealfl.data.sources.reading import Reading, report_progress
from dealfl.errors import BadInput
from dealfl.settings import Count, Document, Numbers

__all__ = ["LibsvmSource", "gather"]

_DENSE_CELLS = 50_000_000


class LibsvmSource(Source, frozen=True, kw_only=True, tag="libsvm"):
    """LIBSVM text: indices start at 1, and a feature that a row does not list is 0."""

    n_features: Annotated[Count, Meta(description="highest index")]
    low: Annotated[
        Numbers, Meta(description="lowest value of a feature: a number, or one per feature")
    ]
    high: Annotated[
        Numbers, Meta(description="highest value of a feature: a number, or one per feature")
    ]
    classes: Classes = ()
    target_bound: TargetBound = 0.0
    encoding: Encoding = "utf-8"

    def check(self, document: Document, path: Path | MemoryRows) -> None:
        """Reject limits that exclude 0, and a file that does not exist."""
        require_one_target(document, self.classes, self.target_bound)
        for key in ("low", "high"):
            value = getattr(self, key)
            if isinstance(value, tuple) and len(value) != self.n_features:
                raise document.error(
                    f"source.{key}",
                    f"source.{key} has {len(value)} numbers for {self.n_features} features",
                )
        try:
            domain = self.domain
        except BadInput as error:
            raise document.error("source.high", f"source.low and source.high: {error}") from error
        if max(domain.low) > 0 or min(domain.high) < 0:
            raise document.error(
                "source.low",
                "source.low and source.high exclude 0, the value of a feature that a row does not "
                "list; set low ≤ 0 and high ≥ 0",
            )
        if isinstance(path, Path) and not path.is_file():
            raise document.error("source.file", f"file {path} does not exist; check the name")

    @property
    def domain(self) -> Domain:
        """Limits of the features."""
        shape = (self.n_features,)
        low, high = (np.broadcast_to(value, shape).tolist() for value in (self.low, self.high))
        return Domain.of(*zip(low, high, strict=True))

    def describe(self, path: Path | MemoryRows) -> Dataset:
        """Return task, limits of the features, classes or bound of the target."""
        task = Task.CLASSIFICATION if self.classes else Task.REGRESSION
        target = {"classes": self.classes, "target_bound": self.target_bound}
        return self._dataset(path, task, self.n_features, domain=self.domain, **target)

    def read(self, path: Path | Content | MemoryRows, *, part: bool = False) -> Reading:
        """Read the examples."""
        if isinstance(path, MemoryRows):
            return self._read_memory(path)
        quarantine, rows = Quarantine(path.name), SparseRows(self.n_features)
        domain, targets, count = self.domain, [], 0
        for block in report_progress(read_libsvm(path, self.encoding), path):
            count += len(block)
            for line, words in block:
                try:
                    target = self._read_target(words[0])
                    indices, values = self.read_features(words[1:], domain)
                except ValueError as error:
                    quarantine.add(Quarantined(line, "", str(error)))
                else:
                    targets.append(target)
                    rows.add(indices, values)
        if not part:
            quarantine.report(count)
        return Reading(Examples(path.name, gather(rows), np.array(targets)), quarantine)

    def _read_memory(self, rows: MemoryRows) -> Reading:
        quarantine, domain, targets, good = Quarantine(rows.name), self.domain, [], []
        matrix = rows.matrix
        outside = (matrix.data < np.array(domain.low)[matrix.indices]) | ~(
            matrix.data <= np.array(domain.high)[matrix.indices]
        )
        row_of = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        bad = set(row_of[outside].tolist())
        for row, text in enumerate(rows.label_texts):
            reason = "a feature is outside its limits" if row in bad else ""
            try:
                target = self._read_target(text)
            except ValueError as error:
                reason = str(error)
            if reason:
                quarantine.add(Quarantined(row, "", reason, "row"))
            else:
                targets.append(target)
                good.append(row)
        quarantine.report(matrix.shape[0])
        return Reading(Examples(rows.name, _densify(matrix[good]), np.array(targets)), quarantine)

    def read_features(self, words: list[str], domain: Domain) -> tuple[list[int], list[float]]:
        """Parse the pairs of one row.

        Parameters
        ----------
        words
            Pairs of index and value, such as "3:0.5".
        domain
            `domain` of the source; the caller computes it once for many rows.

        Returns
        -------
        indices : list of int
            Places of the features, which start at 0.
        values : list of float
            Their values.

        Raises
        ------
        ValueError
            If a pair is malformed, or a value is outside its limits.
        """
        indices, values = read_pairs(words, self.n_features)
        for index, value in zip(indices, values, strict=True):
            low, high = domain.low[index], domain.high[index]
            if not low <= value <= high:
                raise ValueError(f"feature {index + 1} is {value:g}, outside {low:g} … {high:g}")
        return indices, values

    def _read_target(self, word: str) -> Any:  # noqa: ANN401
        classes, value = self.classes, read_number(word)
        if classes:
            key: Any = word if isinstance(classes[0], str) else value
            if key not in classes:
                raise ValueError(f"the label {word[:40]!r} is not one of the classes")
            return classes[classes.index(key)]
        if not abs(value) <= self.target_bound:
            raise ValueError(f"the label {word[:40]!r} is outside ±{self.target_bound:g}")
        return value


def gather(rows: SparseRows) -> Any:  # noqa: ANN401 - an array or a csr
    """Return rows as one matrix.

    Parameters
    ----------
    rows
        The rows.

    Returns
    -------
    array or csr_array
        A dense array of up to 50 million cells; a sparse one if it would be larger.
    """
    return _densify(rows.matrix())


def _densify(matrix: csr_array) -> Any:  # noqa: ANN401 - an array or a csr
    return matrix.toarray() if matrix.shape[0] * matrix.shape[1] <= _DENSE_CELLS else matrix
