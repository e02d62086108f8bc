"""One user's change to a model that was trained on the whole dataset, under each scheme.

The user has ten new objects. DEAL learns them and forgets θ of the user's old ones in the trained
model, in one pass; incremental only learns; NewFL trains a new model on the new objects; Original
trains a new model on everything. Host time is measured; time and charge of the phone are modelled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dealfl.learners import Learner, Tikhonov, TikhonovClassifier, cycles_of
from dealfl.power import EnergyModel, OperatingPoint, Phone, PhoneSpending, Training, phone
from dealfl_paper.figure import Row, Setting, key_of
from dealfl_paper.problems import Batch, Problem, is_stand_in, load_problem

PHONE = "honor"
THETA = 0.02
NEW = 10  # objects, as in the paper's experiment on privacy
HELD = 100  # rows of a user where the dataset has no users, the new ones included
_RETRAININGS = 3  # of the measured time; the operations are the same for all users

CHANGES: tuple[tuple[str, str], ...] = (
    ("personalized_pagerank", "movielens"),
    ("personalized_pagerank", "jester"),
    ("neighbors", "mushrooms"),
    ("neighbors", "phishing"),
    ("naive_bayes", "mushrooms"),
    ("naive_bayes", "phishing"),
    ("naive_bayes", "covtype"),
    ("tikhonov", "housing"),
    ("tikhonov", "cadata"),
    ("tikhonov", "yearpredictionmsd-like"),
)
LABELS = {
    "personalized_pagerank": "PageRank",
    "neighbors": "kNN",
    "naive_bayes": "naive Bayes",
    "tikhonov": "Tikhonov",
}
_SHORT = {"yearpredictionmsd-like": "year"}


@dataclass(frozen=True, slots=True)
class Change:
    """What a scheme learns and forgets, in the trained model or in a new one."""

    scheme: str
    learn: Batch
    forget: Batch | None = None
    scratch: bool = False


@dataclass(frozen=True, slots=True)
class User:
    """Batches to bring the trained model into the state before the change, and the changes."""

    whole: Batch
    before: Batch | None  # None: nothing of the user's other objects is replaced
    changes: tuple[Change, ...]


def change_models(setting: Setting) -> Sequence[Row]:
    """Return one row for each user and scheme; two figures have the same settings."""
    return _change_models(key_of(setting))


@lru_cache(maxsize=64)
def _change_models(key: str) -> Sequence[Row]:
    setting = json.loads(key)
    problem = load_problem(setting["dataset"], setting["learner"], setting["rows"])
    everything = problem.batch(np.arange(len(problem)))
    model = problem.make()
    model.learn(*everything)
    digest = model.digest()
    rows: list[Row] = []
    for number, user in enumerate(_users(problem, setting["users"], setting["seed"])):
        changes = list(user.changes)
        if number == 0:  # the first calls compile loops and fill caches
            for change in changes:
                _measure(problem, model, user, change)
        if number < _RETRAININGS:
            changes.append(Change("original", everything, scratch=True))
        for change in changes:
            cost = _measure(problem, model, user, change)
            rows.append({"user": number, "scheme": change.scheme, "of": len(problem), **cost})
    assert model.digest() == digest, "a change and its inverse leave the model as it was"
    return rows


# -- users --------------------------------------------------------------------------------------


def _users(problem: Problem, count: int, seed: int) -> Iterator[User]:
    rng = np.random.default_rng(seed)
    if problem.targets is None:
        fit = [n for n, items in enumerate(problem.meetings) if len(items) > NEW]
        for person in rng.permutation(fit)[:count].tolist():
            yield _history_user(problem, problem.meetings[person])
        return
    for _ in range(count):
        yield _rows_user(problem, rng.permutation(len(problem))[:HELD])


def _history_user(problem: Problem, items: tuple[int, ...]) -> User:
    """The user's newest items are new; a history is one example, which is replaced."""
    old, new = items[:-NEW], items[-NEW:]
    kept = old[int(THETA * len(old)) :]
    before = problem.history(old)
    return User(
        problem.history(items),
        before,
        (
            Change("deal", problem.history(kept + new), before),
            Change("incremental", problem.history(items), before),
            Change("newfl", problem.history(new), scratch=True),
        ),
    )


def _rows_user(problem: Problem, indices: Any) -> User:  # noqa: ANN401 - an array of indices
    new, old = problem.batch(indices[:NEW]), indices[NEW:]
    evicted = problem.batch(old[: max(int(THETA * len(old)), 1)])
    return User(
        new,
        None,
        (
            Change("deal", new, evicted),
            Change("incremental", new),
            Change("newfl", new, scratch=True),
        ),
    )


# -- costs --------------------------------------------------------------------------------------


def _measure(problem: Problem, trained: Learner, user: User, change: Change) -> dict[str, Any]:
    """Return what a change costs; the trained model is afterwards as it was."""
    if change.scratch:
        model = problem.make()
        start_s = time.perf_counter()
        delta = model.learn(*change.learn)
        _finish(model)
        return _cost(
            problem.learner,
            time.perf_counter() - start_s,
            model.last_work.operations,
            0,
            delta.to_bytes(),
        )
    trained.forget(*user.whole)
    if user.before is not None:
        trained.learn(*user.before)
    _finish(trained)
    start_s = time.perf_counter()
    delta = trained.update(change.learn, change.forget or ())
    _finish(trained)
    elapsed_s = time.perf_counter() - start_s
    learned, forgotten = trained.last_work.operations, 0
    if change.forget is not None:
        trained.learn(*change.forget)
        forgotten = trained.last_work.operations
    if user.before is not None:
        trained.forget(*user.before)
        trained.update(user.whole, change.learn)
    return _cost(problem.learner, elapsed_s, learned - forgotten, forgotten, delta.to_bytes())


def _finish(model: Learner) -> None:
    """Compute the weights where a model has them: training is complete when they are fresh."""
    if isinstance(model, Tikhonov | TikhonovClassifier):
        _ = model.weights


def points_of(device: Phone) -> dict[str, OperatingPoint]:
    """Return the operating points of a phone by their frequency in MHz, the slowest first."""
    points = sorted(device.points, key=lambda point: point.frequency_hz)
    return {f"{point.frequency_hz / 1e6:.0f}": point for point in points}


def _cost(
    learner: str, elapsed_s: float, learned: int, forgotten: int, update: bytes
) -> dict[str, Any]:
    device = phone(PHONE)
    training = Training(
        learned_operations=learned, forgotten_operations=forgotten, sent_bytes=len(update)
    )
    whole, model = PhoneSpending(device, cycles_of(learner)).of(training), EnergyModel(device)
    spent = {mhz: model.compute(whole.cycles, point) for mhz, point in points_of(device).items()}
    return {
        "host_ms": elapsed_s * 1e3,
        "learned_operations": learned,
        "forgotten_operations": forgotten,
        "update_bytes": len(update),
        "phone_ms": {mhz: cost.elapsed_s * 1e3 for mhz, cost in spent.items()},
        "compute_uah": {mhz: cost.charge_uah for mhz, cost in spent.items()},
        "control_uah": whole.compute.charge_uah,
        "whole_uah": whole.whole.charge_uah,
    }


# -- rows ---------------------------------------------------------------------------------------


def label_of(learner: str, dataset: str) -> str:
    """Return a short label; an asterisk marks stand-in data."""
    short = f"{_SHORT.get(dataset, dataset)}*" if is_stand_in(dataset) else dataset
    return f"{LABELS[learner]}, {short}"


def largest(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the largest size of each dataset and learner."""
    most: dict[tuple[str, str], int] = {}
    for row in rows:
        pair = row["learner"], row["dataset"]
        most[pair] = max(most.get(pair, 0), row["of"])
    return [row for row in rows if row["of"] == most[row["learner"], row["dataset"]]]
