"""Predictions for the rows of a user's file, and recommendations for its owners."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dealfl.errors import BadInput
from dealfl.jobs import Document, read_source
from dealfl.jobs.sources import OwnerNames, Quarantined, RatingsSource, sift
from dealfl.learners import HistoryLearner, RowLearner
from dealfl.runs.model_inputs import find_inputs, read_blocks, read_rows
from dealfl.runs.models import Model

__all__ = ["Predicted", "Recommended", "find_ratings", "predict", "recommend"]


@dataclass(frozen=True, slots=True)
class Predicted:
    """The prediction for the row that ends on a line; None if the row is not valid."""

    line: int
    value: Any
    problem: Quarantined | None = None


@dataclass(frozen=True, slots=True)
class Recommended:
    """An item recommended to an owner; rank 1 is the best."""

    owner: str
    rank: int
    item: Any
    score: float


# -- rows ---------------------------------------------------------------------------------------


def predict(model: Model, path: Path) -> Iterator[Predicted]:
    """Yield a prediction for each row of a file in the format of the model's job.

    Parameters
    ----------
    model : Model
        A model of rows, with its job if that is known.
    path : Path
        A table, or a LIBSVM file with or without labels.

    Yields
    ------
    Predicted
        One for each row, in the order of the file.

    Raises
    ------
    BadInput
        If the file does not have the columns of the model, or has no rows.
    """
    inputs = find_inputs(model, path)
    learner = model.learner
    assert isinstance(learner, RowLearner)
    answer = learner.predict_federated if learner.federated else learner.predict
    for block in read_rows(inputs, path):
        rows = [Predicted(one.line, None, one) for one in block.bad]
        if block.lines:
            rows += map(Predicted, block.lines, answer(block.features).tolist())
        yield from sorted(rows, key=lambda row: row.line)


# -- histories ----------------------------------------------------------------------------------


def recommend(
    model: Model, path: Path, top: int
) -> tuple[list[Recommended], list[Quarantined], int]:
    """Recommend items to each owner in a file of histories.

    Parameters
    ----------
    model : Model
        A model of histories, with its job if that is known.
    path : Path
        A table of owners and items.
    top : int
        Maximum number of items per owner.

    Returns
    -------
    found : list of Recommended
        Items by owner, best first.
    bad : list of Quarantined
        Rows that are not valid.
    rows : int
        Number of rows in the file.

    Raises
    ------
    BadInput
        If the model does not recommend items, or the file does not have the columns.
    """
    if not isinstance(model.learner, HistoryLearner):
        raise BadInput(f"{model.learner.name} does not recommend items; --top is for histories")
    source, named = find_ratings(model.document, model.learner.n_items)
    histories, bad, rows = _read_histories(source, path, named)
    found = []
    for owner, history in histories.items():
        items, scores = model.learner.recommend(sorted(history), top)
        pairs = zip(items.tolist(), scores.tolist(), strict=True)
        for rank, (item, score) in enumerate(pairs, 1):
            label = source.items[item] if source.items else item + source.first_item
            found.append(Recommended(owner, rank, label, score))
    return found, bad, rows


def find_ratings(document: Document | None, n_items: int) -> tuple[RatingsSource, bool]:
    """Return the format of a ratings file, and whether a job names its columns."""
    if document is not None and "source" in document.tables:
        source = read_source(document)
        if isinstance(source, RatingsSource):
            if source.n_items != n_items:
                raise BadInput(
                    f"{document.name} has {source.n_items} items, but the model has {n_items}; "
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
    for block, places in read_blocks(path, source.layout, list(readers), named):
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
