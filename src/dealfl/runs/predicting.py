"""Predictions, recommendations and scores of a model, for a user's file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from dealfl.data import Task
from dealfl.data.sources import CsvSource, OwnerNames, Quarantined, RatingsSource, sift
from dealfl.errors import BadInput
from dealfl.jobs import Reading, read_source
from dealfl.learners import HistoryLearner, RowLearner
from dealfl.runs.model_inputs import find_inputs, match_columns, read_blocks, read_rows
from dealfl.runs.models import Model
from dealfl.simulate import METRICS, make_questions

__all__ = ["Predicted", "Recommended", "Score", "predict", "recommend", "score"]


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
    source, named = _find_ratings(model, model.learner.n_items)
    histories, bad, rows = _read_histories(source, path, named)
    found = []
    for owner, history in histories.items():
        items, scores = model.learner.recommend(sorted(history), top)
        pairs = zip(items.tolist(), scores.tolist(), strict=True)
        for rank, (item, score) in enumerate(pairs, 1):
            found.append(Recommended(owner, rank, source.label(item), score))
    return found, bad, rows


def _find_ratings(model: Model, n_items: int) -> tuple[RatingsSource, bool]:
    """Return the format of a ratings file, and whether a job names its columns."""
    document = model.document
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


# -- scores -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Score:
    """The quality of a model on a file.

    Parameters
    ----------
    metric : str
        Name of the score: accuracy, R² or hit rate at 10.
    value : float
        The score; 1.0 is perfect.
    tested : int
        Number of tested examples: rows, or histories.
    quarantined : int
        Number of rows that are not valid.
    quarantined_by_column : dict of str to int
        Number of such rows by column.
    first_quarantined : str
        Line, column and reason of the first such row.
    notes : tuple of str
        Other skipped data, and the reasons.
    """

    metric: str
    value: float
    tested: int
    quarantined: int
    quarantined_by_column: dict[str, int]
    first_quarantined: str
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return all values by name, for JSON."""
        return dataclasses.asdict(self)


def score(model: Model, path: Path) -> Score:
    """Return the quality of a model on a labelled file in the format of its job.

    Parameters
    ----------
    model : Model
        A model, with its job if that is known.
    path : Path
        A table with the columns of the job and its target; without a job, the features in order
        and the target in the last column; or a LIBSVM file; or ratings.

    Returns
    -------
    Score
        Accuracy for classes, R² for numbers, the hit rate at 10 for histories.

    Raises
    ------
    BadInput
        If the file lacks a column, or no row is valid.
    """
    if isinstance(model.learner, HistoryLearner):
        return _score_histories(model, path)
    inputs = find_inputs(model, path)
    source = inputs.source
    if isinstance(source, CsvSource):
        source = _labelled(source, path, inputs.named)
    reading = source.read(path)
    examples = reading.examples
    value = model.learner.score_federated(inputs.map(examples.features), examples.targets)
    return _score(model, value, len(examples), reading, reading.notes)


def _labelled(source: CsvSource, path: Path, named: bool) -> CsvSource:
    """Return the source with the names of its columns in a file; owners are ignored."""
    wanted = [*dict(source.features), source.target]
    names, layout = match_columns(path, source.layout, wanted, named)
    features = tuple((names[name], column) for name, column in source.features)
    target = names[source.target]
    return replace(source, features=features, target=target, layout=layout, owner="", time="")


def _score_histories(model: Model, path: Path) -> Score:
    learner = model.learner
    assert isinstance(learner, HistoryLearner)
    source, named = _find_ratings(model, learner.n_items)
    keys = [key for key in ("owner", "item", "rating", "time") if getattr(source, key)]
    wanted = [getattr(source, key) for key in keys]
    names, layout = match_columns(path, source.layout, wanted, named)
    actual = {key: names[name] for key, name in zip(keys, wanted, strict=True)}
    reading = replace(source, layout=layout, **actual).read(path)
    examples = reading.examples
    histories = make_questions(examples, range(len(examples)), seed=0)
    tested = [history for history in histories if len(history) > 1]
    if not tested:
        raise BadInput(
            f"{path}: every history has only one item; the score hides one item of a "
            "history and needs at least one other"
        )
    notes = [*reading.notes]
    if len(tested) < len(histories):
        short = len(histories) - len(tested)
        notes.append(f"{short:,} of {len(histories):,} histories have only one item: not tested")
    return _score(model, learner.score_federated(tested), len(tested), reading, tuple(notes))


def _score(
    model: Model, value: float, tested: int, reading: Reading, notes: tuple[str, ...]
) -> Score:
    task = Task(model.learner.tasks[0])
    aside = reading.quarantine
    first = str(aside.first[0]) if aside.first else ""
    return Score(METRICS[task], value, tested, len(aside), aside.by_column, first, notes)
