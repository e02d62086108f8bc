"""Predictions for a user's file: a value for each row, or items for each owner."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from dealfl.datasets.readers import Block, DelimitedText, Layout, read_number
from dealfl.errors import BadInput
from dealfl.features import FeatureMap
from dealfl.jobs import Document, plan_without_data, read_source
from dealfl.jobs.sources import (
    Bounded,
    CsvSource,
    OwnerNames,
    Quarantined,
    RatingsSource,
    WordColumn,
    sift,
)
from dealfl.learners import HistoryLearner, RowLearner
from dealfl.runs.models import Model

__all__ = ["Predicted", "Recommended", "predict", "recommend"]

_MOST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Predicted:
    """The prediction for the row that ends on a line; None where the row can not be used."""

    line: int
    value: Any
    problem: Quarantined | None = None


@dataclass(frozen=True, slots=True)
class Recommended:
    """An item for an owner, the best first."""

    owner: str
    rank: int
    item: Any
    score: float


# -- rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The columns a model takes, in the order of its features, and the map after them."""

    columns: dict[str, Bounded | WordColumn]
    named: bool
    layout: Layout = field(default_factory=Layout)
    feature_map: FeatureMap | None = None


def predict(model: Model, path: Path) -> Iterator[Predicted]:
    """Yield a prediction for each row of a table."""
    learner = model.learner
    if not isinstance(learner, RowLearner):
        raise BadInput(f"a {learner.name} does not predict rows; it recommends items to owners")
    answer = learner.predict_federated if learner.federated else learner.predict
    inputs = _find_inputs(learner, model.document)
    columns = inputs.columns
    readers = {name: column.read for name, column in columns.items()}
    for block, places in _read_blocks(path, inputs.layout, list(columns), inputs.named):
        sifted = sift(block, readers, places)
        rows = [Predicted(one.line, None, one) for one in sifted.bad]
        if len(sifted.lines):
            parts = [column.features(sifted.values[name]) for name, column in columns.items()]
            features = np.hstack(parts)
            if inputs.feature_map is not None:
                features = inputs.feature_map.transform(features)
            values = answer(features).tolist()
            rows += map(Predicted, sifted.lines.tolist(), values)
        yield from sorted(rows, key=lambda row: row.line)


def _find_inputs(learner: RowLearner, document: Document | None) -> _Inputs:
    """Return what a model takes, as its job says; without one, as many numbers as features."""
    if document is None:
        return _Inputs(_number_columns([(-_MOST, _MOST)] * learner.n_features), named=False)
    plan = plan_without_data(document)
    if plan.learner != learner.name:
        raise BadInput(
            f"{document.name} is for a {plan.learner}, and the model is a {learner.name}"
        )
    source = read_source(document) if "source" in document.tables else None
    if isinstance(source, CsvSource):
        return _Inputs(dict(source.features), True, source.layout, plan.feature_map)
    domain = plan.subject.dataset.domain
    assert domain is not None, f"{plan.subject.name} has no domain"
    limits = list(zip(domain.low, domain.high, strict=True))
    return _Inputs(_number_columns(limits), named=False, feature_map=plan.feature_map)


def _number_columns(limits: list[tuple[float, float]]) -> dict[str, Bounded | WordColumn]:
    return {f"c{n}": Bounded(low=low, high=high) for n, (low, high) in enumerate(limits, 1)}


# -- histories ----------------------------------------------------------------------------------


def recommend(
    model: Model, path: Path, top: int
) -> tuple[list[Recommended], list[Quarantined], int]:
    """Return up to `top` items for each owner of a file of histories, bad rows, and all rows."""
    if not isinstance(model.learner, HistoryLearner):
        raise BadInput(f"a {model.learner.name} recommends nothing; --top is for histories")
    source, named = _find_source(model.document, model.learner.n_items)
    histories, bad, rows = _read_histories(source, path, named)
    found = []
    for owner, history in histories.items():
        items, scores = model.learner.recommend(sorted(history), top)
        pairs = zip(items.tolist(), scores.tolist(), strict=True)
        for rank, (item, score) in enumerate(pairs, 1):
            label = source.items[item] if source.items else item + source.first_item
            found.append(Recommended(owner, rank, label, score))
    return found, bad, rows


def _find_source(document: Document | None, n_items: int) -> tuple[RatingsSource, bool]:
    """Return how a file says who met what, and whether a job names its columns."""
    if document is not None and "source" in document.tables:
        source = read_source(document)
        if isinstance(source, RatingsSource):
            if source.n_items != n_items:
                raise BadInput(
                    f"{document.name} has {source.n_items} items, and the model {n_items}; "
                    "give the job of this model"
                )
            return source, True
    return RatingsSource(file="", owner="owner", item="item", last_item=n_items - 1), False


def _read_histories(
    source: RatingsSource, path: Path, named: bool
) -> tuple[dict[str, set[int]], list[Quarantined], int]:
    names = OwnerNames()
    readers = source.readers(names)
    found: dict[str, set[int]] = {}
    bad: list[Quarantined] = []
    rows = 0
    for block, places in _read_blocks(path, source.layout, list(readers), named):
        rows += len(block)
        sifted = sift(block, readers, places)
        bad += sifted.bad
        owners, items = sifted.values[source.owner], sifted.values[source.item].astype(np.int64)
        liked = np.ones(len(items), dtype=bool)
        if source.liked_from is not None:
            liked = sifted.values[source.rating] >= source.liked_from
        for owner, item, is_liked in zip(owners.tolist(), items.tolist(), liked, strict=True):
            history = found.setdefault(names[owner], set())
            if is_liked:
                history.add(item)
    return found, bad, rows


# -- columns, by their names or by their order --------------------------------------------------


def _read_blocks(
    path: Path, layout: Layout, names: Sequence[str], named: bool
) -> Iterator[tuple[Block, dict[str, int]]]:
    """Yield blocks of rows with the places of the columns wanted."""
    first = [cell.strip() for cell in DelimitedText(path, layout).read_first()]
    if layout.header or len(first) == len(names):
        places, headed = _find_places(path, first, names, named)
    else:  # the columns of a file without names are called by their place
        numbered = [f"c{place}" for place in range(1, len(first) + 1)]
        places, headed = _find_places(path, numbered, names, named)[0], False
    table = DelimitedText(path, replace(layout, header=headed))
    for block in table.read_blocks(len(first)):
        yield block, dict(zip(names, places, strict=True))


def _find_places(
    path: Path, first: list[str], names: Sequence[str], named: bool
) -> tuple[list[int], bool]:
    """Return where the columns stand, and whether the first row names them."""
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
