"""What a model takes from a user's file: columns or pairs as its job says, or numbers in order."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from dealfl.datasets.readers import (
    Block,
    DelimitedText,
    Layout,
    SparseRows,
    looks_like_libsvm,
    read_libsvm,
    read_lines,
    read_number,
)
from dealfl.errors import BadInput
from dealfl.features import FeatureMap
from dealfl.jobs import plan_without_data, read_source
from dealfl.jobs.sources import (
    Bounded,
    CsvSource,
    LibsvmSource,
    Quarantined,
    gather,
    sift,
)
from dealfl.learners import RowLearner
from dealfl.runs.models import Model

__all__ = ["Inputs", "RowBlock", "find_inputs", "match_columns", "read_blocks", "read_rows"]

_MOST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Inputs:
    """How a model's rows are read, and the map after that; `named` if a job names the columns."""

    source: CsvSource | LibsvmSource
    named: bool = False
    feature_map: FeatureMap | None = None

    def mapped(self, features: Any) -> Any:  # noqa: ANN401 - an array or a csr
        """Return the features as the learner takes them."""
        return features if self.feature_map is None else self.feature_map.transform(features)


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Some rows of a file: the lines and features of the good ones, and the bad ones."""

    lines: list[int]
    features: Any
    bad: list[Quarantined] = field(default_factory=list)


def find_inputs(model: Model, path: Path) -> Inputs:
    """Return how a file is read for a model: as its job says, else as numbers in order.

    LIBSVM's text is recognised where the job has no columns with names.
    """
    learner, document = model.learner, model.document
    if not isinstance(learner, RowLearner):
        raise BadInput(f"a {learner.name} does not take rows; it recommends items to owners")
    if document is None:
        return _in_order(learner, [(-_MOST, _MOST)] * learner.n_features, path)
    plan = plan_without_data(document)
    if plan.learner != learner.name:
        raise BadInput(
            f"{document.name} is for a {plan.learner}, and the model is a {learner.name}"
        )
    source = read_source(document) if "source" in document.tables else None
    if isinstance(source, CsvSource):
        return Inputs(source, True, plan.feature_map)
    if isinstance(source, LibsvmSource) and not _is_comma_separated(path, source):
        return Inputs(source, False, plan.feature_map)
    domain = plan.subject.dataset.domain
    assert domain is not None, f"{plan.subject.name} has no domain"
    return _in_order(learner, zip(domain.low, domain.high, strict=True), path, plan.feature_map)


def _is_comma_separated(path: Path, source: LibsvmSource) -> bool:
    return any(
        "," in line.partition("#")[0] for _, line in islice(read_lines(path, source.encoding), 1)
    )


def _in_order(
    learner: RowLearner,
    limits: Any,  # noqa: ANN401
    path: Path,
    made: FeatureMap | None = None,
) -> Inputs:
    """Return the inputs of numbers without names; the target, if one is wanted, is the last."""
    pairs = list(limits)
    classes = tuple(learner.settings.get("classes", ()))
    shared: dict[str, Any] = {"file": "", "classes": classes, "target_bound": _MOST}
    if looks_like_libsvm([line for _, line in islice(read_lines(path), 20)]):
        low, high = (tuple(side) for side in zip(*pairs, strict=True))
        return Inputs(
            LibsvmSource(n_features=len(pairs), low=low, high=high, **shared), False, made
        )
    features = tuple(
        (f"c{n}", Bounded(low=low, high=high)) for n, (low, high) in enumerate(pairs, 1)
    )
    target = f"c{len(pairs) + 1}"
    return Inputs(CsvSource(target=target, columns={}, features=features, **shared), False, made)


# -- rows without targets -----------------------------------------------------------------------


def read_rows(inputs: Inputs, path: Path) -> Iterator[RowBlock]:
    """Yield the rows of a file, as the learner takes them."""
    source = inputs.source
    blocks = (
        _csv_rows(source, path, inputs.named)
        if isinstance(source, CsvSource)
        else _libsvm_rows(source, path)
    )
    for block in blocks:
        features = inputs.mapped(block.features) if block.lines else None
        yield RowBlock(block.lines, features, block.bad)


def _csv_rows(source: CsvSource, path: Path, named: bool) -> Iterator[RowBlock]:
    columns = dict(source.features)
    readers = {name: column.read for name, column in columns.items()}
    for block, places in read_blocks(path, source.layout, list(columns), named):
        sifted = sift(block, readers, places)
        parts = [column.features(sifted.values[name]) for name, column in columns.items()]
        yield RowBlock(sifted.lines.tolist(), np.hstack(parts), sifted.bad)


def _libsvm_rows(source: LibsvmSource, path: Path) -> Iterator[RowBlock]:
    domain = source.domain
    for block in read_libsvm(path, source.encoding):
        rows, lines, bad = SparseRows(source.n_features), list[int](), list[Quarantined]()
        for line, words in block:
            labelled = ":" not in words[0]
            try:
                rows.add(*source.read_features(words[labelled:], domain))
            except ValueError as error:
                bad.append(Quarantined(line, "", str(error)))
            else:
                lines.append(line)
        yield RowBlock(lines, gather(rows), bad)


# -- columns, by their names or by their order --------------------------------------------------


def read_blocks(
    path: Path, layout: Layout, names: Sequence[str], named: bool
) -> Iterator[tuple[Block, dict[str, int]]]:
    """Yield blocks of rows with the places of the columns wanted."""
    first, places, headed = _look(path, layout, names, named)
    table = DelimitedText(path, replace(layout, header=headed))
    for block in table.read_blocks(len(first)):
        yield block, dict(zip(names, places, strict=True))


def match_columns(
    path: Path, layout: Layout, names: Sequence[str], named: bool
) -> tuple[Mapping[str, str], Layout]:
    """Return the name that each of the columns wanted has in a file, and the layout of that."""
    _, places, headed = _look(path, layout, names, named)
    found = replace(layout, header=headed)
    actual = DelimitedText(path, found).read_names()
    return {name: actual[place] for name, place in zip(names, places, strict=True)}, found


def _look(
    path: Path, layout: Layout, names: Sequence[str], named: bool
) -> tuple[list[str], list[int], bool]:
    """Return the first row, where the columns stand, and whether the first row names them."""
    first = [cell.strip() for cell in DelimitedText(path, layout).read_first()]
    if layout.header or len(first) == len(names):
        return first, *_find_places(path, first, names, named)
    # the columns of a file without names are called by their place
    numbered = [f"c{place}" for place in range(1, len(first) + 1)]
    return first, _find_places(path, numbered, names, named)[0], False


def _find_places(
    path: Path, first: list[str], names: Sequence[str], named: bool
) -> tuple[list[int], bool]:
    absent = [name for name in names if name not in first]
    if not absent:
        return [first.index(name) for name in names], True
    if named and len(absent) < len(names):
        raise BadInput(f"{path} has no column {absent[0]!r}; its columns: {', '.join(first)}")
    if len(first) == len(names):
        headed = not named and all(np.isnan(read_number(cell)) for cell in first)
        return list(range(len(names))), headed
    remedy = "name them in the first row" if named else "give the job file by --job to match names"
    few = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    raise BadInput(
        f"{path} has {len(first)} columns, where {len(names)} are expected "
        f"({few}); give those alone and in this order, or {remedy}"
    )
