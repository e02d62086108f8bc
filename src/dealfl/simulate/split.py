"""The section [data], and the split of a job's examples: a stream per worker, and a test set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from dealfl.data import Examples, Task, split_by_label, split_by_owner, split_uniformly
from dealfl.errors import BadInput, NotLearned
from dealfl.exact import Statistics
from dealfl.jobs import Plan, Quarantine, Reading, Records, records_of
from dealfl.learners import Learner
from dealfl.settings import Amount, OneOf, Positive, Whole
from dealfl.simulate.evaluation import METRICS, TRIVIAL, Trivial, make_questions

Indices = NDArray[np.int64]
_BLOCK_ROWS = 1 << 15
NumberOfRows = Annotated[Whole, Meta(description="examples drawn from the dataset; 0: all")]
TestShare = Annotated[
    float,
    Meta(gt=0, le=0.9, description="share of the examples in the test set; no worker gets it"),
]


class Partition(Struct, frozen=True, kw_only=True, tag_field="partition"):
    """A division of examples among workers."""

    rows: NumberOfRows = 0
    test_share: TestShare = 0.2
    wants_labels: ClassVar[bool] = False

    def parts(self, examples: Examples, chosen: Indices, workers: int, seed: int) -> list[Indices]:
        """Return the indices of each worker among the chosen examples."""
        raise NotImplementedError


class Uniform(Partition, frozen=True, kw_only=True, tag="uniform"):
    """A random partition; every worker gets the same number."""

    def parts(self, examples: Examples, chosen: Indices, workers: int, seed: int) -> list[Indices]:  # noqa: ARG002
        """Return parts of equal size."""
        return split_uniformly(len(chosen), workers, seed)


class ByOwner(Partition, frozen=True, kw_only=True, tag="by_owner"):
    """A partition by owner; one worker gets all examples of an owner."""

    def parts(self, examples: Examples, chosen: Indices, workers: int, seed: int) -> list[Indices]:
        """Return the parts of the owners."""
        if examples.owners is None:
            raise BadInput(
                f'data.partition is "by_owner", but {examples.name} has no owners; '
                'use "uniform" or "label_skewed"'
            )
        return split_by_owner(examples.owners[chosen], workers, seed)


class LabelSkewed(Partition, frozen=True, kw_only=True, tag="label_skewed"):
    """A partition in which each worker has mostly a few classes."""

    concentration: Annotated[
        Positive, Meta(description="the smaller, the fewer classes per worker")
    ]
    wants_labels: ClassVar[bool] = True

    def parts(self, examples: Examples, chosen: Indices, workers: int, seed: int) -> list[Indices]:
        """Return uneven parts."""
        assert examples.targets is not None, "only datasets with labels are let through"
        labels = examples.targets[chosen]
        return split_by_label(labels, workers, self.concentration, seed)


PARTITIONS: tuple[type[Partition], ...] = (Uniform, ByOwner, LabelSkewed)


class Change(Struct, frozen=True, kw_only=True):
    """A change of the world in the middle of a simulation, from which on other examples come."""

    at_h: Annotated[Amount, Meta(description="virtual time of the change; 0: none")] = 0.0
    what: Annotated[
        str,
        OneOf(("labels", "half", "features")),
        Meta(
            description="labels: the first class becomes the last, and so on; half: the same among "
            "every second class; features: they are mirrored within their bounds"
        ),
    ] = "labels"

    def apply(self, reading: Reading) -> Reading:
        """Return what is read after the change."""
        examples = reading.examples
        if self.what == "features":
            X = np.asarray(examples.features)
            mirrored = X.max(axis=0) + X.min(axis=0) - X
            return replace(reading, examples=replace(examples, features=mirrored))
        assert examples.targets is not None, "only datasets with classes are let through"
        classes = np.unique(examples.targets)
        step = 2 if self.what == "half" else 1
        changed = classes.copy()
        changed[::step] = classes[::step][::-1]
        targets = changed[np.searchsorted(classes, examples.targets)]
        return replace(reading, examples=replace(examples, targets=targets))


@dataclass(frozen=True, slots=True)
class Split:
    """The examples of a fleet: an empty learner, a stream for each worker, and a test set."""

    make: Callable[[], Learner]
    streams: list[Records]
    metric: str
    test: tuple[Any, ...]
    tested: int
    quarantine: Quarantine
    trivial: Trivial
    train: Callable[[], Iterator[tuple[Any, ...]]]
    notes: tuple[str, ...] = ()

    def fingerprint(self, job: str, base: Statistics | None) -> str:
        """Return a hash that identifies a run: the job, its data, and its base."""
        hashed = hashlib.sha256(job.encode())
        hashed.update(b"" if base is None else base.digest().encode())
        for owner, body in chain.from_iterable(self.streams):
            hashed.update(owner.encode())
            hashed.update(body)
        return hashed.hexdigest()

    def central_quality(self) -> float | None:
        """Return the quality of one computer that learns all examples and forgets none.

        Nearest neighbours compare true distances here; workers share the votes of buckets only.
        """
        model: Any = self.make()
        for examples in self.train():
            model.learn(*examples)
        return float(model.score(*self.test)) if self.tested else None

    def quality(self, model: Learner) -> float | None:
        """Return the quality of a model on the test set."""
        try:
            return model.score_federated(*self.test)
        except NotLearned:
            return None


def load_examples(plan: Plan) -> Reading:
    """Read the examples of a job, with features in the form that its learner takes."""
    reading, X = plan.read()
    return replace(reading, examples=replace(reading.examples, features=X))


def split_examples(
    plan: Plan,
    data: Partition,
    workers: int,
    seed: int,
    reading: Reading | None = None,
    change: Change | None = None,
) -> Split:
    """Split the examples of a job, as loaded or read now; the same seed gives the same split.

    After a change, each worker has the same examples, in the same order, with other contents.
    """
    task = plan.subject.task
    reading = reading or load_examples(plan)
    examples = reading.examples
    X: Any = examples.features
    draw = np.random.Generator(np.random.PCG64([seed, 1]))
    order = draw.permutation(len(examples))[: data.rows or None]
    cut = max(1, round(data.test_share * len(order)))
    if cut >= len(order):
        raise BadInput(
            f"{examples.name} has {len(order)} examples, too few for a training and a test set; "
            "use more rows"
        )
    test, rest = order[:cut], order[cut:]
    parts = data.parts(examples, rest, workers, seed)
    if change is not None:
        reading = change.apply(reading)
        examples = reading.examples
        X = examples.features
    learner = plan.make()
    streams = [records_of(learner, reading, X, draw.permutation(rest[part])) for part in parts]
    held_out = _test_set(examples, X, test, seed)
    notes = reading.notes
    if task is Task.RECOMMENDATION and (short := len(test) - len(held_out[0])):
        why = "histories of the test share have one item only: they are neither learned nor tested"
        notes = (*notes, f"{short:,} of {len(test):,} {why}")
    tested = len(held_out[0]) if task is Task.RECOMMENDATION else len(test)
    learned = X[rest] if examples.targets is None else examples.targets[rest]
    return Split(
        plan.make,
        streams,
        METRICS[task],
        held_out,
        tested,
        reading.quarantine,
        TRIVIAL[task](learned, *held_out[-1:]),
        partial(_blocks, X, examples.targets, rest),
        notes,
    )


def _blocks(X: Any, targets: Any, rows: Indices) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    for first in range(0, len(rows), _BLOCK_ROWS):
        part = rows[first : first + _BLOCK_ROWS]
        yield (X[part],) if targets is None else (X[part], targets[part])


def _test_set(examples: Examples, X: Any, test: Indices, seed: int) -> tuple[Any, ...]:  # noqa: ANN401
    if examples.targets is not None:
        return X[test], examples.targets[test]
    questions = make_questions(examples, test.tolist(), seed)
    return ([history for history in questions if len(history) > 1],)
