"""Predictions, recommendations and scores of a model, for a user's file."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dealfl.data import Task
from dealfl.data.sources import Quarantined, RatingsSource, Source, item_names, source_in_order
from dealfl.errors import BadInput
from dealfl.jobs import Reading, plan_without_data, read_source
from dealfl.learners import HistoryLearner, RowLearner
from dealfl.runs.models import Model
from dealfl.simulate import METRICS, make_questions


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
    """Yield a prediction for each row of a file in the format of the model's job."""
    source, transform = _find_source(model, path)
    learner = model.learner
    assert isinstance(learner, RowLearner)
    answer = learner.predict_federated if learner.federated else learner.predict
    for block in source.read_rows(path):
        rows = [Predicted(row.line, None, row) for row in block.bad]
        if block.lines:
            rows += map(Predicted, block.lines, answer(transform(block.features)).tolist())
        yield from sorted(rows, key=lambda row: row.line)


def _find_source(model: Model, path: Path) -> tuple[Source, Callable[[Any], Any]]:
    """Return the format of a file for a model, that of its job or numbers in order, and its map."""
    learner, document = model.learner, model.document
    if not isinstance(learner, RowLearner):
        raise BadInput(f"{learner.name} does not take rows; it recommends items to owners")
    classes = tuple(learner.settings.get("classes", ()))
    if document is None:
        limits = [(-sys.float_info.max, sys.float_info.max)] * learner.n_features
        return source_in_order(limits, classes, path), lambda features: features
    plan = plan_without_data(document)
    if plan.learner != learner.name:
        raise BadInput(
            f"the learner of {document.name} is {plan.learner}, but that of the model is "
            f"{learner.name}; give the job of this model"
        )
    source = plan.subject.source
    if source is None or not source.is_format_of(path):
        domain = plan.subject.dataset.domain
        assert domain is not None, f"{plan.subject.name} has no domain"
        source = source_in_order(zip(domain.low, domain.high, strict=True), classes, path)
    return source, plan.map


# -- histories ----------------------------------------------------------------------------------


def recommend(
    model: Model, path: Path, top: int
) -> tuple[list[Recommended], list[Quarantined], int]:
    """Recommend items to each owner in a file of histories."""
    if not isinstance(model.learner, HistoryLearner):
        raise BadInput(f"{model.learner.name} does not recommend items; --top is for histories")
    source = _find_ratings(model, model.learner.n_items)
    histories, bad, rows = source.read_histories(path)
    recommended = []
    for owner, history in histories.items():
        items, scores = model.learner.recommend(sorted(history), top)
        pairs = zip(items.tolist(), scores.tolist(), strict=True)
        for rank, (item, score) in enumerate(pairs, 1):
            recommended.append(Recommended(owner, rank, source.label(item), score))
    return recommended, bad, rows


def _find_ratings(model: Model, n_items: int) -> RatingsSource:
    """Return the format of a ratings file for a model."""
    document = model.document
    if document is None or "source" not in document.tables:
        return item_names(None, n_items)
    source = item_names(read_source(document), n_items)
    if source.n_items != n_items:
        raise BadInput(
            f"{document.name} has {source.n_items} items, but the model has {n_items}; "
            "give the job of this model"
        )
    return source


# -- scores -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Score:
    """The quality of a model on a file."""

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
    """Return the quality of a model on a labelled file in the format of its job."""
    if isinstance(model.learner, HistoryLearner):
        return _score_histories(model, path)
    source, transform = _find_source(model, path)
    reading = source.read_labelled(path)
    examples = reading.examples
    value = model.learner.score_federated(transform(examples.features), examples.targets)
    return _score(model, value, len(examples), reading, reading.notes)


def _score_histories(model: Model, path: Path) -> Score:
    learner = model.learner
    assert isinstance(learner, HistoryLearner)
    reading = _find_ratings(model, learner.n_items).read_labelled(path)
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
