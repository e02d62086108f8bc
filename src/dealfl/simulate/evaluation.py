"""What a quality is worth: which item is hidden, what needs no model, the noise of the test."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.data import Examples, Task

_RECOMMENDED = 10

METRICS = {
    Task.CLASSIFICATION: "accuracy",
    Task.REGRESSION: "R²",
    Task.RECOMMENDATION: "hit rate at 10",
}


@dataclass(frozen=True, slots=True)
class Trivial:
    """What a prediction without a model reaches on the test set."""

    name: str
    quality: float


def make_questions(examples: Examples, rows: Iterable[int], seed: int) -> list[list[int]]:
    """Return histories with the item to guess at the end: the latest one.

    Of several latest items, and where times are not known, a seeded draw decides.
    """

    def question(row: int) -> list[int]:
        meetings = examples.meetings(row)
        random.Random(f"{seed}/{row}").shuffle(meetings)  # noqa: S311
        return [item for _, item in sorted(meetings, key=lambda meeting: meeting[0])]

    return [question(row) for row in rows]


def _commonest(learned: NDArray[Any], wanted: NDArray[Any]) -> Trivial:
    classes, counts = np.unique(learned, return_counts=True)
    return Trivial("commonest class", float(np.mean(wanted == classes[counts.argmax()])))


def _mean(learned: NDArray[Any], wanted: NDArray[Any]) -> Trivial:
    spread = float(np.sum((wanted - np.mean(wanted)) ** 2))
    missed = float(np.sum((wanted - np.mean(learned)) ** 2))
    return Trivial("always the mean", 1.0 - missed / spread if spread else 0.0)


def _most_popular(learned: Any, wanted: list[list[int]]) -> Trivial:  # noqa: ANN401
    popular = Counter(learned.indices.tolist()).most_common()

    def hits(history: list[int]) -> bool:
        seen = set(history[:-1])
        shown = [item for item, _ in popular if item not in seen][:_RECOMMENDED]
        return history[-1] in shown

    return Trivial("most popular items", sum(map(hits, wanted)) / len(wanted) if wanted else 0.0)


TRIVIAL: dict[Task, Callable[[Any, Any], Trivial]] = {
    Task.CLASSIFICATION: _commonest,
    Task.REGRESSION: _mean,
    Task.RECOMMENDATION: _most_popular,
}


def standard_error(metric: str, quality: float, tested: int) -> float:
    """Return the standard error of a quality, which a test set of limited size causes.

    Shares have the error of a binomial count; for R², Olkin and Finn's approximation is used.

    Examples
    --------
    >>> round(standard_error("accuracy", 0.9, 400), 3)
    0.015
    """
    share = min(max(quality, 0.0), 1.0)
    rest = 2.0 * (1.0 - share) if metric == METRICS[Task.REGRESSION] else math.sqrt(1.0 - share)
    return math.sqrt(share / tested) * rest if tested else 0.0
