"""The formats of [source]: a table of examples, LIBSVM text, and ratings."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from dealfl.data.dataset import Dataset, Domain, Task
from dealfl.data.examples import Examples
from dealfl.data.readers import (
    DENSE_CELLS,
    Block,
    Content,
    Encoding,
    Interactions,
    Layout,
    SparseRows,
    looks_like_libsvm,
    read_libsvm,
    read_lines,
    read_number,
    read_pairs,
)
from dealfl.data.sources.base import (
    Classes,
    OwnerNames,
    Quarantine,
    Quarantined,
    Reading,
    RowBlock,
    Source,
    TargetBound,
    Time,
    match_columns,
    rank,
    read_columns,
    report_progress,
    require_columns,
    require_one_target,
    sift,
)
from dealfl.data.sources.columns import (
    Bounded,
    Column,
    Floats,
    Reader,
    Vocabulary,
    WordColumn,
    Wrong,
    read_column,
    read_moments,
)
from dealfl.data.sources.memory import (
    MemoryRows,
    MemoryTable,
    TableData,
    feature_columns,
    open_table,
)
from dealfl.errors import BadInput
from dealfl.learners import as_matrix, is_frame
from dealfl.settings import FLAT, Count, Document, Labels, Numbers, Text, Whole

_LARGEST = float(2**53)
_MANY_ITEMS = 1 << 24


class CsvSource(Source, frozen=True, kw_only=True, tag="csv"):
    """A table: each row is an example, some columns are its features, one is its target."""

    target: Annotated[Text, Meta(description="column to predict")]
    columns: Annotated[
        Mapping[str, Any],
        Meta(min_length=1, description="columns that are features, each with its limits or words"),
    ]
    classes: Classes = ()
    target_bound: TargetBound = 0.0
    owner: Annotated[
        Text,
        Meta(description="column that names the owner; the rows of an owner can stay together"),
    ] = ""
    time: Time = ""
    layout: Annotated[Layout, FLAT] = Layout()
    features: tuple[tuple[str, Column], ...] = ()

    def with_columns(self, document: Document) -> CsvSource:
        """Return the source with its features, read from the tables of `columns`."""
        features = tuple(
            (name, read_column(document, name, table)) for name, table in self.columns.items()
        )
        return replace(self, features=features)

    def check(self, document: Document, data: TableData) -> None:
        """Reject a source that contradicts itself or the data."""
        require_one_target(document, self.classes, self.target_bound)
        keys = [key for key in ("target", "owner", "time") if getattr(self, key)]
        wanted = {f"source.{key}": getattr(self, key) for key in keys}
        wanted |= {f"source.columns.{name}": name for name in self.columns}
        require_columns(document, data, self.layout, wanted)
        for name in self.columns:
            if name in (self.target, self.owner):
                raise document.error(
                    f"source.columns.{name}",
                    f"the column {name!r} cannot be a feature and also the target or owner",
                )

    def describe(self, data: TableData) -> Dataset:
        """Return task, limits of the features, classes or bound of the target."""
        limits = [pair for _, column in self.features for pair in column.limits]
        return _describe_rows(self, data, Domain.of(*limits))

    @property
    def has_header(self) -> bool:
        """Whether the file names its columns."""
        return self.layout.header

    @property
    def feature_names(self) -> list[str]:
        """Names of the features; the feature of a word is called column=word."""
        names: list[str] = []
        for name, column in self.features:
            words = column.words if isinstance(column, WordColumn) else ()
            names += [f"{name}={word}" for word in words] or [name]
        return names

    def read_rows(self, data: TableData) -> Iterator[RowBlock]:
        """Yield the rows of a table; the columns of a file are matched by name or by order."""
        readers: dict[str, Reader] = {name: column.read for name, column in self.features}
        table = self._match(data, list(readers)) if isinstance(data, Path) else data
        for sifted in sift(open_table(table, self.layout), readers):
            yield RowBlock(sifted.lines.tolist(), self._features(sifted.values), sifted.bad)

    def _match(self, path: Path, names: list[str]) -> TableData:
        columns = [column for _, column in self.features if isinstance(column, WordColumn)]
        words = {str(word) for column in columns for word in column.words}
        words |= set(map(str, self.classes))
        return match_columns(path, self.layout, names, named=bool(self.columns), words=words)

    def read_labelled(self, path: Path) -> Reading:
        """Read the examples of a file with targets for a model; owners and times are ignored."""
        table = self._match(path, [*dict(self.features), self.target])
        return replace(self, owner="", time="").read(table)

    def take(self, X: object) -> NDArray[np.float64]:
        """Return rows in memory as features; BadInput names the first that does not fit."""
        wanted = [name for name, _ in self.features]
        columns = feature_columns(X)
        if not is_frame(X):
            if len(columns) != len(wanted):
                raise BadInput(f"X has {len(columns)} columns; the job has {len(wanted)}")
            columns = dict(zip(wanted, columns.values(), strict=True))
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise BadInput(
                f"X has no column {missing[0]!r}; its columns: {', '.join(map(str, columns))}"
            )
        parts = [np.empty((0, len(self.feature_names)))]
        cells = {name: columns[name] for name in wanted}
        for block in self.read_rows(MemoryTable("X", cells, parses_texts=True)):
            if block.bad:
                raise BadInput(f"X, {block.bad[0]}")
            parts.append(block.features)
        return np.vstack(parts)

    def _features(self, values: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        return np.hstack([column.features(values[name]) for name, column in self.features])

    def read(self, data: TableData, *, part: bool = False) -> Reading:
        """Read the examples."""
        quarantine = Quarantine(data.name)
        names = OwnerNames()
        table = open_table(data, self.layout)
        columns = read_columns(table, self._readers(names), quarantine, part=part)
        targets: NDArray[Any] = columns[self.target]
        if self.classes:
            targets = np.array(self.classes)[targets.astype(np.int64)]
        examples = Examples(
            data.name,
            self._features(columns),
            targets,
            owners=columns[self.owner] if self.owner else None,
            times=rank(columns[self.time]) if self.time else None,
        )
        return Reading(examples, quarantine, names if self.owner else None)

    def _readers(self, names: OwnerNames) -> dict[str, Reader]:
        bound = self.target_bound
        target = Vocabulary(self.classes) if self.classes else Bounded(low=-bound, high=bound)
        readers: dict[str, Reader] = {self.time: read_moments} if self.time else {}
        if self.owner:
            readers[self.owner] = names.read
        readers[self.target] = target.read
        return readers | {name: column.read for name, column in self.features}


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

    def check(self, document: Document, data: Path | MemoryRows) -> None:
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
        if isinstance(data, Path) and not data.is_file():
            raise document.error("source.file", f"file {data} does not exist; check the name")

    @property
    def domain(self) -> Domain:
        """Limits of the features."""
        shape = (self.n_features,)
        low, high = (np.broadcast_to(value, shape).tolist() for value in (self.low, self.high))
        return Domain.of(*zip(low, high, strict=True))

    def describe(self, data: Path | MemoryRows) -> Dataset:
        """Return task, limits of the features, classes or bound of the target."""
        return _describe_rows(self, data, self.domain)

    def read(self, data: Path | Content | MemoryRows, *, part: bool = False) -> Reading:
        """Read the examples."""
        if isinstance(data, MemoryRows):
            return self._read_memory(data)
        quarantine = Quarantine(data.name)
        rows = SparseRows(self.n_features)
        domain = self.domain
        targets = []
        count = 0
        for block in report_progress(read_libsvm(data, self.encoding), data.name):
            count += len(block)
            for line, words in block:
                try:
                    target = self._read_target(words[0])
                    rows.add(*self._read_features(words[1:], domain))
                except ValueError as error:
                    quarantine.add(Quarantined(line, "", str(error)))
                else:
                    targets.append(target)
        if not part:
            quarantine.report(count)
        return Reading(Examples(data.name, rows.matrix(), np.array(targets)), quarantine)

    def _read_memory(self, rows: MemoryRows) -> Reading:
        quarantine = Quarantine(rows.name)
        reasons = _find_outside(rows.matrix, self.domain)
        targets = []
        good = []
        for row, text in enumerate(rows.label_texts):
            try:
                target = self._read_target(text)
            except ValueError as error:
                reasons[row] = str(error)
            if row in reasons:
                quarantine.add(Quarantined(row, "", reasons[row], "row"))
            else:
                targets.append(target)
                good.append(row)
        quarantine.report(rows.matrix.shape[0])
        table = rows.matrix[good]
        features = table.toarray() if math.prod(table.shape) <= DENSE_CELLS else table
        return Reading(Examples(rows.name, features, np.array(targets)), quarantine)

    def is_format_of(self, path: Path) -> bool:
        """Return whether the first line has no comma, as a table of numbers would have."""
        lines = islice(read_lines(path, self.encoding), 1)
        return not any("," in line.partition("#")[0] for _, line in lines)

    def read_rows(self, path: Path) -> Iterator[RowBlock]:
        """Yield the rows of a file with or without labels."""
        domain = self.domain
        for block in read_libsvm(path, self.encoding):
            rows = SparseRows(self.n_features)
            lines: list[int] = []
            bad: list[Quarantined] = []
            for line, words in block:
                labelled = ":" not in words[0]
                try:
                    rows.add(*self._read_features(words[labelled:], domain))
                except ValueError as error:
                    bad.append(Quarantined(line, "", str(error)))
                else:
                    lines.append(line)
            yield RowBlock(lines, rows.matrix(), bad)

    def take(self, X: object) -> Any:  # noqa: ANN401 - an array or a csr
        """Return rows in memory as features; BadInput names the first that does not fit."""
        matrix = as_matrix(X, self.n_features)
        for row, reason in sorted(_find_outside(matrix, self.domain).items()):
            raise BadInput(f"X, {Quarantined(row, '', reason, 'row')}")
        return matrix

    def _read_features(self, words: list[str], domain: Domain) -> tuple[list[int], list[float]]:
        indices, values = read_pairs(words, self.n_features)
        for index, value in zip(indices, values, strict=True):
            if not domain.low[index] <= value <= domain.high[index]:
                raise ValueError(_outside(domain, index, value))
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


def _describe_rows(
    source: CsvSource | LibsvmSource, data: TableData | MemoryRows, domain: Domain
) -> Dataset:
    task = Task.CLASSIFICATION if source.classes else Task.REGRESSION
    target = {"classes": source.classes, "target_bound": source.target_bound}
    return _describe(data, task, domain.n_features, domain=domain, **target)


def _describe(
    data: TableData | MemoryRows,
    task: Task,
    columns: int,
    **facts: Any,  # noqa: ANN401
) -> Dataset:
    return Dataset(
        name=data.name,
        task=task,
        description="the user's own file",
        rows=0,
        columns=columns,
        licence="the user's",
        address=str(data),
        **facts,
    )


def _outside(domain: Domain, index: int, value: float) -> str:
    low, high = domain.low[index], domain.high[index]
    return f"feature {index + 1} is {value:g}, outside {low:g} … {high:g}"


def _find_outside(matrix: Any, domain: Domain) -> dict[int, str]:  # noqa: ANN401
    """Return by row the reason of the first value that is outside its limits."""
    low, high = np.array(domain.low), np.array(domain.high)
    if not isinstance(matrix, np.ndarray):
        values, columns = matrix.data, matrix.indices
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        bad = np.flatnonzero(~((values >= low[columns]) & (values <= high[columns])))
        rows, columns, values = rows[bad], columns[bad], values[bad]
    else:
        rows, columns = np.nonzero(~((matrix >= low) & (matrix <= high)))
        values = matrix[rows, columns]
    reasons: dict[int, str] = {}
    for row, column, value in zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True):
        reasons.setdefault(row, _outside(domain, column, value))
    return reasons


def source_in_order(
    limits: Iterable[tuple[float, float]], classes: tuple[Any, ...], path: Path
) -> Source:
    """Return the format of a file for a model without names: LIBSVM, or a table of numbers.

    The target of a table, if it is needed, is the last column.
    """
    pairs = list(limits)
    shared: dict[str, Any] = {"file": "", "classes": classes, "target_bound": sys.float_info.max}
    if looks_like_libsvm([line for _, line in islice(read_lines(path), 20)]):
        low, high = (tuple(side) for side in zip(*pairs, strict=True))
        return LibsvmSource(n_features=len(pairs), low=low, high=high, **shared)
    features = tuple(
        (f"c{number}", Bounded(low=low, high=high)) for number, (low, high) in enumerate(pairs, 1)
    )
    return CsvSource(target=f"c{len(pairs) + 1}", columns={}, features=features, **shared)


def source_of_domain(domain: Domain) -> LibsvmSource:
    """Return the format of rows in memory for data without a [source]: numbers in order."""
    return LibsvmSource(file="", n_features=domain.n_features, low=domain.low, high=domain.high)


class RatingsSource(Source, frozen=True, kw_only=True, tag="ratings"):
    """Interactions: all items of an owner form one history, which is one example."""

    owner: Annotated[Text, Meta(description="column that names the owner")]
    item: Annotated[Text, Meta(description="column that names the item")]
    rating: Annotated[
        Text, Meta(description="column of the ratings; without it, every item counts")
    ] = ""
    liked_from: Annotated[
        float | None, Meta(description="lowest rating that makes an item part of a history")
    ] = None
    time: Time = ""
    items: Annotated[
        tuple[Any, ...],
        Labels(1),
        Meta(description="all possible items; rows with others are quarantined"),
    ] = ()
    first_item: Annotated[Whole, Meta(description="lowest item, if items are whole numbers")] = 0
    last_item: Annotated[
        Whole, Meta(description="highest item, if items are whole numbers; instead of `items`")
    ] = 0
    layout: Annotated[Layout, FLAT] = Layout()

    def check(self, document: Document, data: TableData) -> None:
        """Reject a source that contradicts itself or the data."""
        keys = ("owner", "item", "rating", "time")
        wanted = {f"source.{key}": getattr(self, key) for key in keys if getattr(self, key)}
        require_columns(document, data, self.layout, wanted)
        counts = Counter(wanted.values())
        for key, name in wanted.items():
            if counts[name] > 1:
                raise document.error(key, f"the column {name!r} cannot have two roles")
        if bool(self.rating) != (self.liked_from is not None):
            raise document.error(
                "source.liked_from",
                "source takes rating and liked_from together: the column, and the lowest rating "
                "with which an item belongs to a history",
            )
        if bool(self.items) == bool(self.last_item):
            raise document.error(
                "source.items", "source takes either items or last_item (with first_item)"
            )
        if not self.items and not self.first_item <= self.last_item < self.first_item + _MANY_ITEMS:
            raise document.error(
                "source.last_item",
                f"source.last_item is {self.last_item}; it takes a whole number ≥ "
                f"first_item, which is {self.first_item}, and at most {_MANY_ITEMS:,} items",
            )

    @property
    def n_items(self) -> int:
        """Number of possible items."""
        return len(self.items) or self.last_item - self.first_item + 1

    def label(self, item: int) -> Any:  # noqa: ANN401
        """Return the name of an item in the file."""
        return self.items[item] if self.items else item + self.first_item

    def number(self, item: Any) -> int:  # noqa: ANN401
        """Return the number of an item."""
        number = int(item) - self.first_item if not self.items else -1
        if item in self.items:
            number = self.items.index(item)
        if not 0 <= number < self.n_items:
            raise BadInput(f"the item {item!r} is not among the {self.n_items:,} items of the job")
        return number

    def describe(self, data: TableData) -> Dataset:
        """Return the number of items, and the lowest liked rating."""
        task = Task.RECOMMENDATION
        return _describe(data, task, 0, n_items=self.n_items, liked_from=self.liked_from)

    def read(self, data: TableData, *, part: bool = False) -> Reading:
        """Read the histories: one example for each owner."""
        quarantine = Quarantine(data.name)
        names = OwnerNames()
        readers = self._readers(names)
        if self.time:
            readers[self.time] = read_moments
        columns = read_columns(open_table(data, self.layout), readers, quarantine, part=part)
        interactions = Interactions(
            columns[self.owner],
            columns[self.item].astype(np.int64),
            self.n_items,
            len(columns[self.item]),
            columns.get(self.rating),
            rank(columns[self.time]) if self.time else None,
        )
        examples = interactions.histories(self.liked_from, data.name, stored=part)
        if not part and not len(examples):
            raise BadInput(
                f"{data}: no rating reaches source.liked_from = {self.liked_from:g}; lower it"
            )
        owners = len(np.unique(columns[self.owner]))
        notes = []
        if owners > len(examples):
            notes.append(
                f"{owners - len(examples):,} of {owners:,} owners have no item with a rating of at "
                f"least {self.liked_from:g} (source.liked_from): they have no history"
            )
        return Reading(examples, quarantine, names, tuple(notes))

    def read_labelled(self, path: Path) -> Reading:
        """Read the histories of a file for a model."""
        wanted = [name for name in (self.owner, self.item, self.rating, self.time) if name]
        return self.read(match_columns(path, self.layout, wanted, named=bool(self.file)))

    def read_histories(self, path: Path) -> tuple[dict[str, set[int]], list[Quarantined], int]:
        """Return the liked items of each owner of a file for a model, bad rows, and all rows."""
        names = OwnerNames()
        readers = self._readers(names)
        table = match_columns(path, self.layout, list(readers), named=bool(self.file))
        histories: dict[str, set[int]] = {}
        bad: list[Quarantined] = []
        rows = 0
        for sifted in sift(table, readers):
            rows += len(sifted)
            bad += sifted.bad
            owners, items = sifted.values[self.owner], sifted.values[self.item].astype(np.int64)
            liked = np.ones(len(items), dtype=bool)
            if self.liked_from is not None:
                liked = sifted.values[self.rating] >= self.liked_from
            for owner, item, is_liked in zip(owners.tolist(), items.tolist(), liked, strict=True):
                history = histories.setdefault(names[owner], set())
                if is_liked:
                    history.add(item)
        return histories, bad, rows

    def _readers(self, names: OwnerNames) -> dict[str, Reader]:
        """Return the readers of the columns of owners, items and ratings."""
        items = Vocabulary(self.items).read if self.items else self._read_items
        readers: dict[str, Reader] = {self.owner: names.read, self.item: items}
        if self.rating:
            readers[self.rating] = Bounded(low=-_LARGEST, high=_LARGEST).read
        return readers

    def _read_items(self, block: Block, column: int) -> tuple[Floats, Wrong]:
        numbered = Bounded(low=float(self.first_item), high=float(self.last_item))
        values, wrong = numbered.read(block, column)
        fractional = np.flatnonzero(values != np.floor(values)).tolist()
        cells = block.texts(column) if fractional else []
        for row in fractional:
            wrong.setdefault(row, f"{cells[row][:40]!r} is not a whole number")
        return values - self.first_item, wrong


def item_names(source: Source | None, n_items: int) -> RatingsSource:
    """Return the source that names items; without one, items are numbered from 0."""
    if isinstance(source, RatingsSource):
        return source
    return RatingsSource(file="", owner="owner", item="item", last_item=n_items - 1)
