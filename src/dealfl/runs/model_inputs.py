"""Reading a user's file for a model: in the format of its job, or as numbers in order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from dealfl.data.readers import (
    Block,
    DelimitedText,
    Layout,
    SparseRows,
    looks_like_libsvm,
    read_libsvm,
    read_lines,
    read_number,
)
from dealfl.data.sources import Bounded, CsvSource, LibsvmSource, Quarantined, gather
from dealfl.errors import BadInput
from dealfl.jobs import plan_without_data, read_source
from dealfl.learners import RowLearner
from dealfl.runs.models import Model

__all__ = ["Inputs", "RowBlock", "find_inputs", "match_columns", "read_blocks", "read_rows"]

_MOST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Inputs:
    """The format of a model's rows, `named` if a job names the columns, and its feature map."""

    source: CsvSource | LibsvmSource
    named: bool = False
    map: Callable[[Any], Any] = lambda features: features


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Some rows of a file: line numbers and features of valid rows, and the invalid rows."""

    lines: list[int]
    features: Any
    bad: list[Quarantined] = field(default_factory=list)


def find_inputs(model: Model, path: Path) -> Inputs:
    """Return the format of a file for a model: that of its job, else numbers in order.

    The LIBSVM format is detected if the job does not name the columns.
    """
    learner, document = model.learner, model.document
    if not isinstance(learner, RowLearner):
        raise BadInput(f"{learner.name} does not take rows; it recommends items to owners")
    if document is None:
        return _in_order(learner, [(-_MOST, _MOST)] * learner.n_features, path)
    plan = plan_without_data(document)
    if plan.learner != learner.name:
        raise BadInput(
            f"the learner of {document.name} is {plan.learner}, but that of the model is "
            f"{learner.name}; give the job of this model"
        )
    source = read_source(document) if "source" in document.tables else None
    if isinstance(source, CsvSource):
        return Inputs(source, True, plan.map)
    if isinstance(source, LibsvmSource) and not _is_comma_separated(path, source):
        return Inputs(source, False, plan.map)
    domain = plan.subject.dataset.domain
    assert domain is not None, f"{plan.subject.name} has no domain"
    return _in_order(learner, zip(domain.low, domain.high, strict=True), path, plan.map)


def _is_comma_separated(path: Path, source: LibsvmSource) -> bool:
    return any(
        "," in line.partition("#")[0] for _, line in islice(read_lines(path, source.encoding), 1)
    )


def _in_order(
    learner: RowLearner,
    limits: Any,  # noqa: ANN401
    path: Path,
    made: Callable[[Any], Any] = lambda features: features,
) -> Inputs:
    """Return the format of numbers without names; the target, if needed, is last."""
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
    """Yield the rows of a file in the form that the learner expects."""
    source = inputs.source
    blocks = (
        _csv_rows(source, path, inputs.named)
        if isinstance(source, CsvSource)
        else _libsvm_rows(source, path)
    )
    for block in blocks:
        features = inputs.map(block.features) if block.lines else None
        yield RowBlock(block.lines, features, block.bad)


def _csv_rows(source: CsvSource, path: Path, named: bool) -> Iterator[RowBlock]:
    columns = [name for name, _ in source.features]
    for block, places in read_blocks(path, source.layout, columns, named):
        lines, features, bad = source.read_features(block, places)
        yield RowBlock(lines, features, bad)


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
    """Yield blocks of rows with the positions of the requested columns."""
    first, places, headed = _look(path, layout, names, named)
    table = DelimitedText(path, replace(layout, header=headed))
    for block in table.read_blocks(len(first)):
        yield block, dict(zip(names, places, strict=True))


def match_columns(
    path: Path, layout: Layout, names: Sequence[str], named: bool
) -> tuple[Mapping[str, str], Layout]:
    """Return the name of each requested column in a file, and the layout of the file."""
    _, places, headed = _look(path, layout, names, named)
    found = replace(layout, header=headed)
    actual = DelimitedText(path, found).read_names()
    return {name: actual[place] for name, place in zip(names, places, strict=True)}, found


def _look(
    path: Path, layout: Layout, names: Sequence[str], named: bool
) -> tuple[list[str], list[int], bool]:
    """Return the first row, the positions of the columns, and whether the first row is a header."""
    first = [cell.strip() for cell in DelimitedText(path, layout).read_first()]
    if layout.header or len(first) == len(names):
        return first, *_find_places(path, first, names, named)
    # columns of a file without a header are named by their position
    numbered = [f"c{place}" for place in range(1, len(first) + 1)]
    return first, _find_places(path, numbered, names, named)[0], False


def _find_places(
    path: Path, first: list[str], names: Sequence[str], named: bool
) -> tuple[list[int], bool]:
    absent = [name for name in names if name not in first]
    if not absent:
        return [first.index(name) for name in names], True
    if named and len(absent) < len(names):
        raise BadInput(f"{path} has no column {absent[0]!r}; its columns are: {', '.join(first)}")
    if len(first) == len(names):
        headed = not named and all(np.isnan(read_number(cell)) for cell in first)
        return list(range(len(names))), headed
    remedy = "name them in the first row" if named else "give the job file with --job"
    few = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    raise BadInput(
        f"{path} has {len(first)} columns; {len(names)} are expected ({few}): "
        f"give only these, in this order, or {remedy}"
    )
