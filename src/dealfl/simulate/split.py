"""The split of a job's examples: a stream for each worker, and a test set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.datasets import Task
from dealfl.errors import BadInput, NotLearned
from dealfl.jobs import Plan, Quarantine, Reading
from dealfl.learners import Histories, Learner, Rows
from dealfl.simulate.fleet import Fleet

__all__ = ["METRICS", "Split", "split_examples"]

Indices = NDArray[np.int64]
Stream = list[tuple[str, bytes]]  # owner and body of each record, in the order of arrival

METRICS = {
    Task.CLASSIFICATION: "accuracy",
    Task.REGRESSION: "R²",
    Task.RECOMMENDATION: "hit rate at 10",
}


@dataclass(frozen=True, slots=True)
class Split:
    """The examples of a fleet: an empty learner, a stream for each worker, and a test set.

    Parameters
    ----------
    make : callable
        Function without arguments that returns an empty learner.
    streams : list of list of (str, bytes)
        Owner and body of each record by worker, in the order of arrival.
    metric : str
        Name of the quality, such as "accuracy".
    test : tuple
        Arguments of `score_federated` of the learner.
    tested : int
        Number of examples in the test set.
    quarantine : Quarantine
        Rows of the source that cannot be used.
    notes : tuple of str
        What was left out, and why.
    """

    make: Callable[[], Learner]
    streams: list[Stream]
    metric: str
    test: tuple[Any, ...]
    tested: int
    quarantine: Quarantine
    notes: tuple[str, ...] = ()

    def quality(self, model: Learner) -> float | None:
        """Return the quality of a model on the test set.

        Parameters
        ----------
        model : Learner
            A model of the job.

        Returns
        -------
        float or None
            None before anything was learned.
        """
        try:
            return model.score_federated(*self.test)
        except NotLearned:
            return None


def split_examples(fleet: Fleet, seed: int) -> Split:
    """Split the examples of a fleet; the same seed gives the same split.

    Parameters
    ----------
    fleet : Fleet
        The fleet.
    seed : int
        Seed of the split.

    Returns
    -------
    Split
        Streams and test set.

    Raises
    ------
    BadInput
        If there are too few examples, or the data cannot be partitioned as requested.
    """
    plan, task = fleet.plan, fleet.plan.subject.task
    reading, X = _load(plan)
    examples = reading.examples
    draw = np.random.Generator(np.random.PCG64([seed, 1]))
    order = draw.permutation(len(examples))[: fleet.data.rows or None]
    cut = max(1, round(fleet.data.test_share * len(order)))
    if cut >= len(order):
        raise BadInput(
            f"{examples.name} has {len(order)} examples, too few for a training and a test set; "
            "use more rows"
        )
    test, rest = order[:cut], order[cut:]
    parts = fleet.data.parts(examples, rest, fleet.workers, seed)
    sides = _split_histories if task is Task.RECOMMENDATION else _split_rows
    streams, held_out = sides(reading, X, [draw.permutation(part) for part in parts], test)
    notes = reading.notes
    if task is Task.RECOMMENDATION and len(held_out[0]) < len(test):
        notes = (*notes, _note_short(len(test) - len(held_out[0]), len(test)))
    return Split(plan.make, streams, METRICS[task], held_out, len(test), reading.quarantine, notes)


def _note_short(short: int, of: int) -> str:
    return (
        f"{short:,} of {of:,} histories of the test share have one item only: "
        "they are neither learned nor tested"
    )


@lru_cache(maxsize=2)  # a sweep uses the same data many times
def _load(plan: Plan) -> tuple[Reading, Any]:
    return plan.read()


Sides = tuple[list[Stream], tuple[Any, ...]]


def _split_rows(reading: Reading, X: Any, parts: list[Indices], test: Indices) -> Sides:  # noqa: ANN401
    targets, times = reading.examples.targets, reading.examples.times
    assert targets is not None, f"{reading.examples.name} has no targets"

    def record(place: int) -> tuple[str, bytes]:
        return reading.owner(place), Rows.encode(_dense(X[place]), targets[place])

    if times is not None:
        parts = [part[np.argsort(times[part], kind="stable")] for part in parts]
    streams = [[record(place) for place in part.tolist()] for part in parts]
    return streams, (X[test], targets[test])


def _dense(row: Any) -> NDArray[Any]:  # noqa: ANN401 - a row of an array or of a csr
    return np.asarray(row.toarray() if hasattr(row, "toarray") else row).ravel()


def _split_histories(reading: Reading, X: Any, parts: list[Indices], test: Indices) -> Sides:  # noqa: ANN401, ARG001
    """Divide interactions in the order of their times; test with each history's latest."""
    examples, named = reading.examples, reading.owner_names is not None

    def stream(part: Indices) -> Stream:
        meetings = [
            (moment, row, item) for row in part.tolist() for moment, item in examples.meetings(row)
        ]
        if examples.times is not None:
            meetings.sort()
        owners = {row: reading.owner(row) if named else f"{row}" for row in part.tolist()}
        return [(owners[row], Histories.encode(item)) for _, row, item in meetings]

    questions = [[item for _, item in examples.meetings(row)] for row in test.tolist()]
    asked = [history for history in questions if len(history) > 1]
    return [stream(part) for part in parts], (asked,)
