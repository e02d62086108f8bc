"""The federated score of a model on a labelled file; it needs only statistics."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dealfl.datasets import Task
from dealfl.errors import BadInput
from dealfl.jobs import Reading
from dealfl.jobs.sources import CsvSource
from dealfl.learners import HistoryLearner
from dealfl.runs.model_inputs import find_inputs, match_columns
from dealfl.runs.models import Model
from dealfl.runs.predicting import find_ratings
from dealfl.simulate import METRICS

__all__ = ["Score", "score"]


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
        """Return all values, for JSON.

        Returns
        -------
        dict
            JSON values by name.
        """
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
    value = model.learner.score_federated(inputs.mapped(examples.features), examples.targets)
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
    source, named = find_ratings(model.document, learner.n_items)
    keys = [key for key in ("owner", "item", "rating", "time") if getattr(source, key)]
    wanted = [getattr(source, key) for key in keys]
    names, layout = match_columns(path, source.layout, wanted, named)
    actual = {key: names[name] for key, name in zip(keys, wanted, strict=True)}
    reading = replace(source, layout=layout, **actual).read(path)
    examples = reading.examples
    histories = [[item for _, item in examples.meetings(row)] for row in range(len(examples))]
    tested = [history for history in histories if len(history) > 1]
    if not tested:
        raise BadInput(
            f"{path}: every history has only one item; the score hides the latest item of a "
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
