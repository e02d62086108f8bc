"""A row at a time: one plain implementation for all schemes, timed with its solve.

Decided before any ratio was seen: numpy, one call a row, no batches and no compiled loops, float64
sums in place of exact integers. The same code learns, forgets and solves for every scheme, so that
the ratio of two schemes does not depend on how well one of them was written.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl_paper.figure import Row, Setting
from dealfl_paper.one_user import HELD, NEW, THETA
from dealfl_paper.problems import Problem, load_problem

Floats = NDArray[np.float64]
Example = Any  # a row with its target, or the items of a history

_PENALTY = 1.0
_MANY = 200_000  # rows or items of histories; a longer training is timed once


class _Reference(ABC):
    """A model whose statistics one example at a time adds to, or leaves."""

    @abstractmethod
    def __init__(self, problem: Problem) -> None:
        """Make an empty model."""

    @abstractmethod
    def add(self, example: Example, sign: int) -> None:
        """Learn an example, or forget it."""

    @abstractmethod
    def solve(self) -> None:
        """Bring the model up to date with the statistics."""


class _Counts(_Reference):
    """Naive Bayes: tables of counts, and the logarithms of their shares."""

    def __init__(self, problem: Problem) -> None:
        classes = 1 + max(int(target) for target in _numbered(problem))
        self._counts = np.zeros((classes, problem.features.shape[1]))
        self._priors = np.zeros(classes)

    def add(self, example: Example, sign: int) -> None:
        row, target = example
        self._counts[target] += sign * row
        self._priors[target] += sign

    def solve(self) -> None:
        counts = np.maximum(self._counts + 1.0, 1e-9)
        self.shares = np.log(counts / counts.sum(axis=1, keepdims=True))
        self.chances = np.log((self._priors + 1.0) / (self._priors.sum() + 1.0))


class _Ridge(_Reference):
    """Tikhonov: the sums of products, and the weights that solve them."""

    def __init__(self, problem: Problem) -> None:
        width = problem.features.shape[1]
        self._products = np.zeros((width, width))
        self._sums = np.zeros(width)

    def add(self, example: Example, sign: int) -> None:
        row, target = example
        self._products += sign * np.outer(row, row)
        self._sums += sign * target * row

    def solve(self) -> None:
        penalised = self._products + _PENALTY * np.eye(len(self._sums))
        self.weights = np.linalg.solve(penalised, self._sums)


class _Buckets(_Reference):
    """Nearest neighbours: hash tables of signatures, each with the votes of its classes."""

    def __init__(self, problem: Problem) -> None:
        settings = problem.make().settings
        self._tables, bits = int(settings["tables"]), int(settings["bits"])
        shape = (self._tables * bits, problem.features.shape[1])
        self._planes = np.random.default_rng(0).standard_normal(shape)
        self._votes: dict[tuple[int, bytes], Counter[int]] = {}

    def add(self, example: Example, sign: int) -> None:
        row, target = example
        signatures = (self._planes @ row > 0).reshape(self._tables, -1)
        for table, signature in enumerate(np.packbits(signatures, axis=1)):
            votes = self._votes.setdefault((table, signature.tobytes()), Counter())
            votes[target] += sign

    def solve(self) -> None:
        """Do nothing: the votes are the model."""


class _Pairs(_Reference):
    """PageRank: histories of items and pairs, and the similarities of the touched items."""

    def __init__(self, problem: Problem) -> None:
        items = problem.features.shape[1]
        self._pairs = np.full((items, items), 0.0)
        self._items = np.zeros(items)
        self._touched: set[int] = set()
        self.similarities = np.full((items, items), 0.0)

    def add(self, example: Example, sign: int) -> None:
        items = np.array(example)
        self._items[items] += sign
        self._pairs[np.ix_(items, items)] += sign
        self._touched.update(example)

    def solve(self) -> None:
        for item in self._touched:
            either = self._items[item] + self._items - self._pairs[item]
            self.similarities[item] = self._pairs[item] / np.maximum(either, 1.0)
        self._touched.clear()


_REFERENCES: dict[str, type[_Reference]] = {
    "personalized_pagerank": _Pairs,
    "neighbors": _Buckets,
    "naive_bayes": _Counts,
    "tikhonov": _Ridge,
}


def _numbered(problem: Problem) -> Sequence[Any]:
    """Return the targets; classes as numbers."""
    assert problem.targets is not None
    if problem.learner == "tikhonov":
        return [float(target) for target in problem.targets]
    numbers: list[int] = np.unique(problem.targets, return_inverse=True)[1].tolist()
    return numbers


def time_rows(setting: Setting) -> Sequence[Row]:
    """Return the time of one user's change under each scheme, for several users."""
    problem = load_problem(setting["dataset"], setting["learner"], setting["rows"])
    examples = _examples(problem)
    rows: list[Row] = []

    def note(user: int, scheme: str, elapsed_s: float) -> None:
        cost = {"host_ms": 1e3 * elapsed_s, "of": len(examples)}
        rows.append({"user": user, "scheme": scheme, **cost})

    for user in range(1 if _count_rows(examples) > _MANY else 3):
        model = _REFERENCES[problem.learner](problem)
        note(user, "original", _timed(model, examples, ()))
    rng = np.random.default_rng(setting["seed"])
    for user in range(setting["users"]):
        new, gone, undo = _change(problem, examples, rng)
        _timed(model, undo[0], undo[1])  # the state before the change
        note(user, "deal", _timed(model, new, gone))
        _timed(model, (*gone, *undo[1]), (*new, *undo[0]))
        fresh = _REFERENCES[problem.learner](problem)
        note(user, "newfl", _timed(fresh, undo[2], ()))
    return rows


def _count_rows(examples: Sequence[Example]) -> int:
    return sum(1 if isinstance(example[0], np.ndarray) else len(example) for example in examples)


def _examples(problem: Problem) -> list[Example]:
    if problem.targets is None:
        return list(problem.meetings)
    dense = problem.features.toarray() if hasattr(problem.features, "toarray") else problem.features
    return list(zip(np.asarray(dense, np.float64), _numbered(problem), strict=True))


def _change(
    problem: Problem, examples: Sequence[Example], rng: np.random.Generator
) -> tuple[Sequence[Example], Sequence[Example], tuple[Any, ...]]:
    """Return what DEAL learns and forgets; what leads to the state before; what is new."""
    if problem.targets is None:
        fit = [items for items in examples if len(items) > NEW]
        items = fit[int(rng.integers(len(fit)))]
        old, new = items[:-NEW], items[-NEW:]
        kept = old[int(THETA * len(old)) :]
        return (kept + new,), (old,), ((old,), (items,), (new,))
    indices = rng.permutation(len(examples))[:HELD]
    new = [examples[index] for index in indices[:NEW]]
    evicted = [examples[index] for index in indices[NEW : NEW + max(int(THETA * (HELD - NEW)), 1)]]
    return new, evicted, ((), new, new)


def _timed(model: _Reference, learn: Sequence[Example], forget: Sequence[Example]) -> float:
    start_s = time.thread_time()  # CPU time: others share the machine
    for example in learn:
        model.add(example, 1)
    for example in forget:
        model.add(example, -1)
    model.solve()
    return time.thread_time() - start_s
