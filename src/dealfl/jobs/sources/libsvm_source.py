"""A user's own LIBSVM file: a label, then index:value pairs, one row an example."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray
from scipy import sparse

from dealfl.datasets import Dataset, Domain, Examples
from dealfl.errors import BadInput
from dealfl.jobs.sources.cells import number_of
from dealfl.jobs.sources.files import Encoding, File
from dealfl.jobs.sources.quarantine import Quarantine, Quarantined
from dealfl.jobs.sources.tables import Chunk, lines_of
from dealfl.jobs.sources.targets import Classes, TargetBound, require_one_target, supervised
from dealfl.jobs.sources.watching import LOG, watched
from dealfl.jobs.subject import Reading
from dealfl.settings import Count, Document, Numbers

__all__ = ["LibsvmSource", "libsvm_chunks", "pairs_of"]

_CHUNK_ROWS = 16_384
_DENSE_CELLS = 50_000_000


class LibsvmSource(Struct, frozen=True, kw_only=True, tag_field="format", tag="libsvm"):
    """LIBSVM's text format; indices begin at 1, and a feature that is not named is 0."""

    file: File
    n_features: Annotated[Count, Meta(description="highest index")]
    low: Annotated[Numbers, Meta(description="lowest value of all features, or of each")]
    high: Annotated[Numbers, Meta(description="highest value of all features, or of each")]
    classes: Classes = ()
    target_bound: TargetBound = 0.0
    encoding: Encoding = "utf-8"

    def prepared(self, document: Document, path: Path) -> LibsvmSource:
        """Return it after the checks that need the job file."""
        require_one_target(document, self.classes, self.target_bound)
        for key in ("low", "high"):
            value = getattr(self, key)
            if isinstance(value, tuple) and len(value) != self.n_features:
                raise document.error(
                    f"source.{key}",
                    f"source.{key} has {len(value)} numbers for {self.n_features} features",
                )
        try:
            domain = self._domain
        except BadInput as error:
            raise document.error("source.high", f"source.low and source.high: {error}") from error
        if max(domain.low) > 0 or min(domain.high) < 0:
            raise document.error(
                "source.low",
                "source.low and source.high leave out 0, which is what a feature that a row does "
                "not name stands for; give a low up to 0 and a high from 0 on",
            )
        if not path.is_file():
            raise document.error("source.file", f"there is no file {path}; check the name")
        return self

    @property
    def _domain(self) -> Domain:
        shape = (self.n_features,)
        low, high = (np.broadcast_to(value, shape).tolist() for value in (self.low, self.high))
        return Domain.of(*zip(low, high, strict=True))

    def described(self, path: Path) -> Dataset:
        """Return what learners must know."""
        return supervised(path, self._domain, self.classes, self.target_bound)

    def read(self, path: Path) -> Reading:
        """Return the examples of the file."""
        quarantine, rows = Quarantine(path.name), _Rows(self)
        count = 0
        for chunk in watched(libsvm_chunks(path, self.encoding), path):
            count += len(chunk.rows)
            for line, words in zip(chunk.lines, chunk.rows, strict=True):
                try:
                    rows.add(words)
                except ValueError as error:
                    quarantine.add(Quarantined(line, "", str(error)))
        if not rows.targets:
            first = f"; the first is {quarantine.first[0]}" if count else ""
            raise BadInput(f"{path}: none of {count:,} rows can be used{first}")
        if quarantine:
            LOG.warning("%s", quarantine.told(count))
        return Reading(Examples(path.name, rows.matrix(), np.array(rows.targets)), quarantine)


class _Rows:
    """The rows read so far."""

    def __init__(self, source: LibsvmSource) -> None:
        self._source = source
        self._low = np.broadcast_to(source.low, (source.n_features,)).tolist()
        self._high = np.broadcast_to(source.high, (source.n_features,)).tolist()
        self._indices: list[int] = []
        self._values: list[float] = []
        self._starts = [0]
        self.targets: list[Any] = []

    def add(self, words: list[str]) -> None:
        """Take a row, or raise ValueError and take nothing of it."""
        target = self._target(words[0])
        pairs = pairs_of(words[1:])
        for index, value in pairs:
            if index > self._source.n_features:
                raise ValueError(f"index {index} is above {self._source.n_features}")
            low, high = self._low[index - 1], self._high[index - 1]
            if not low <= value <= high:
                raise ValueError(f"feature {index} is {value:g}, outside {low:g} … {high:g}")
        self.targets.append(target)
        self._indices += [index - 1 for index, _ in pairs]
        self._values += [value for _, value in pairs]
        self._starts.append(len(self._indices))

    def _target(self, word: str) -> Any:  # noqa: ANN401
        classes, value = self._source.classes, number_of(word)
        if classes:
            key: Any = word if isinstance(classes[0], str) else value
            if key not in classes:
                raise ValueError(f"the label {word[:40]!r} is none of the classes")
            return classes[classes.index(key)]
        if not abs(value) <= self._source.target_bound:
            raise ValueError(f"the label {word[:40]!r} is not within {self._source.target_bound:g}")
        return value

    def matrix(self) -> NDArray[np.float64] | sparse.csr_array[Any, tuple[int, int]]:
        """Return the features: dense, if that is not too large."""
        shape = (len(self.targets), self._source.n_features)
        parts = (np.array(self._values, dtype=np.float64), self._indices, self._starts)
        table: sparse.csr_array[Any, tuple[int, int]] = sparse.csr_array(parts, shape=shape)
        return table.toarray() if shape[0] * shape[1] <= _DENSE_CELLS else table


def pairs_of(words: list[str]) -> list[tuple[int, float]]:
    """Return the index:value pairs; ValueError names the one that is none.

    >>> pairs_of(["1:0.5", "3:2"])
    [(1, 0.5), (3, 2.0)]
    """
    pairs: list[tuple[int, float]] = []
    for word in words:
        index, _, text = word.partition(":")
        value = number_of(text)
        if not index.isdecimal() or not math.isfinite(value):
            raise ValueError(f"{word[:40]!r} is not an index:value pair")
        if int(index) <= (pairs[-1][0] if pairs else 0):
            raise ValueError(f"{word[:40]!r}: indices begin at 1 and ascend")
        pairs.append((int(index), value))
    return pairs


def libsvm_chunks(path: Path, encoding: str) -> Iterator[Chunk]:
    """Yield the words of each line; what follows a # is a remark."""
    chunk = Chunk([], [])
    for number_, line in lines_of(path, encoding):
        words = line.partition("#")[0].split()
        if words:
            chunk.lines.append(number_)
            chunk.rows.append(words)
        if len(chunk.rows) == _CHUNK_ROWS:
            yield chunk
            chunk = Chunk([], [])
    if chunk.rows:
        yield chunk
