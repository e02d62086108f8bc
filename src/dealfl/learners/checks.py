"""The contract of learners, as checks that any learner can run.

The author of a learner describes it as a `Subject` (how to create one, a pool of examples, calls
that must fail, impossible statistics) and calls `check_learner`:

    check_learner(Subject(make, (X, y), ...), interleavings=1000)

Each check raises `AssertionError` and says what was expected.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dealfl.errors import BadInput, Impossible, NotLearned
from dealfl.exact import Statistics
from dealfl.learners.base import Learner, statistics_of
from dealfl.learners.row_learner import RowLearner

__all__ = ["Operation", "Subject", "check_interleaving", "check_learner", "random_operations"]

Positions = Sequence[int]

_STEPS = 12
_DRIFT = 1e-6  # tolerance of models, which are floats; statistics are compared bit for bit


@dataclass(frozen=True, slots=True)
class Operation:
    """Learn or forget the examples at some positions of a pool; a position can occur twice."""

    learns: bool
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A learner to check, with a pool of examples.

    Parameters
    ----------
    make : callable
        Creates an empty learner.
    examples : tuple
        Arguments of `learn` for the whole pool: rows and targets, or histories.
    refused : sequence of callable, optional
        Calls that raise `BadInput` or `NotLearned` on a learner that has learned the whole pool.
    impossible : sequence of Statistics, optional
        Statistics that no set of examples has.
    """

    make: Callable[[], Learner]
    examples: tuple[Any, ...]
    refused: Sequence[Callable[[Any], object]] = ()
    impossible: Sequence[Statistics] = ()

    @property
    def name(self) -> str:
        """The name of the learner."""
        return self.make().name

    @property
    def pool(self) -> int:
        """The number of examples."""
        return int(self.examples[0].shape[0])

    def at(self, positions: Positions) -> tuple[Any, ...]:
        """Return the arguments of `learn` for the examples at some positions."""
        return tuple(part[list(positions)] for part in self.examples)

    def learn(self, model: Learner, positions: Positions) -> Statistics:
        """Learn the examples at some positions; return the statistics that were added."""
        return model.learn(*self.at(positions))

    def forget(self, model: Learner, positions: Positions) -> Statistics:
        """Forget the examples at some positions; return the statistics that were added."""
        return model.forget(*self.at(positions))

    def learned(self, positions: Positions) -> Learner:
        """Return a new learner that has learned some examples in one batch."""
        model = self.make()
        self.learn(model, positions)
        return model


def random_operations(generator: random.Random, pool: int) -> list[Operation]:
    """Return a random sequence with duplicates, re-adds, empty batches and complete removals."""
    counts: Counter[int] = Counter()
    operations = []
    for _ in range(_STEPS):
        size = generator.choice((0, 1, 1, 1, 2, 3, 5))
        learns = not counts or generator.random() < 0.55
        if learns:
            positions = generator.choices(range(pool), k=size)
            counts.update(positions)
        else:
            elements = sorted(counts.elements())
            everything = generator.random() < 0.1
            positions = (
                elements if everything else generator.sample(elements, min(size, len(elements)))
            )
            counts.subtract(positions)
            counts = +counts
        operations.append(Operation(learns, tuple(positions)))
    return operations


def check_learner(subject: Subject, interleavings: int = 100, seed: int = 0) -> None:
    """Run every check; one that fails raises `AssertionError` and says what was expected.

    Parameters
    ----------
    subject : Subject
        Learner to check.
    interleavings : int, default 100
        Number of random sequences of learning and forgetting.
    seed : int, default 0
        Seed of the random sequences.
    """
    check_refusals(subject)
    check_impossible(subject)
    check_files(subject)
    check_description(subject)
    check_update(subject)
    generator = random.Random(seed)  # noqa: S311
    for _ in range(interleavings):
        check_interleaving(subject, random_operations(generator, subject.pool))


def check_interleaving(subject: Subject, operations: Sequence[Operation]) -> None:
    """Check the invariants after a sequence of learning and forgetting."""
    model, total = subject.make(), Statistics.zero(subject.make().schema)
    counts: Counter[int] = Counter()
    for operation in operations:
        change = subject.learn if operation.learns else subject.forget
        delta = change(model, operation.positions)
        _check_delta(subject, operation, delta, model)
        total = total + delta
        (counts.update if operation.learns else counts.subtract)(operation.positions)
        model.check()
    survivors = sorted(counts.elements())
    _check_survivors(subject, model, survivors)
    assert model.statistics == total, "the deltas do not add up to the statistics"


def _check_delta(subject: Subject, operation: Operation, delta: Statistics, model: Learner) -> None:
    """Check that a delta and its cost do not depend on what was learned before."""
    alone = subject.make()
    learned = subject.learn(alone, operation.positions)
    expected = learned if operation.learns else -learned
    assert delta == expected, "the delta depends on what was learned before"
    assert delta.is_zero == (not operation.positions) or learned.is_zero
    assert model.last_work == alone.last_work, "work depends on what was learned before"
    subject.forget(alone, operation.positions)
    assert alone.digest() == subject.make().digest(), "forgetting all leaves a trace"


def _check_survivors(subject: Subject, model: Learner, survivors: list[int]) -> None:
    scratch = subject.learned(survivors)
    assert model.digest() == scratch.digest(), "not the digest of training from scratch"
    assert model.statistics == scratch.statistics, "not the statistics of training from scratch"
    _check_canonical(model)
    _check_division(subject, survivors, scratch)
    if survivors:
        assert model.change(scratch) < _DRIFT, "not the model of training from scratch"
        _check_predictions(subject, model, scratch)


def _check_predictions(subject: Subject, model: Learner, scratch: Learner) -> None:
    if isinstance(model, RowLearner) and isinstance(scratch, RowLearner):
        ours, theirs = (learner.predict(subject.examples[0]) for learner in (model, scratch))
        same = np.allclose(ours, theirs, _DRIFT, _DRIFT) if ours.dtype.kind == "f" else None
        assert np.array_equal(ours, theirs) or same, "not the predictions of training from scratch"


def _check_canonical(model: Learner) -> None:
    statistics = model.statistics
    for spec in statistics.schema.arrays:
        entries = statistics[spec.name]
        assert len(entries.values.nonzero()) == len(entries), f"a zero is kept in {spec.name}"
        assert np.all(np.diff(entries.indices) > 0), f"{spec.name} is not in ascending order"
    assert model.digest() == statistics.digest(), "the digest kept up to date is wrong"
    data = statistics.to_bytes()
    assert Statistics.from_bytes(data) == statistics, "bytes do not give the statistics back"
    assert Statistics.from_bytes(data).to_bytes() == data, "bytes are not canonical"


def _check_division(subject: Subject, survivors: list[int], scratch: Learner) -> None:
    """Check that order, batches and assignment to workers do not matter."""
    backwards, merged = subject.make(), subject.make()
    for position in reversed(survivors):
        subject.learn(backwards, [position])
    for part in (survivors[::2], survivors[1::2]):
        merged.merge(subject.learned(part).statistics)
    assert backwards.digest() == scratch.digest(), "the order of examples matters"
    assert merged.digest() == scratch.digest(), "the assignment to workers matters"


def check_refusals(subject: Subject) -> None:
    """Check that unusable and never learned examples raise an error and change nothing."""
    empty = subject.make()
    blank = empty.digest()
    for position in range(subject.pool):
        if not subject.learned([position]).statistics.is_zero:
            _expect_refusal(lambda m, p=position: subject.forget(m, [p]), empty, NotLearned)  # type: ignore[misc]
    assert empty.digest() == blank, "a call that raised an error changed the statistics"
    model = subject.learned(range(subject.pool))
    before = model.digest()
    for call in subject.refused:
        _expect_refusal(call, model, (BadInput, NotLearned))
        assert model.digest() == before, "a call that raised an error changed the statistics"
        assert model.statistics.digest() == before, "a call that raised an error changed a cell"
    subject.forget(model, range(subject.pool))
    assert model.statistics.is_zero, "a call that raised an error changed the statistics"


def _expect_refusal(
    call: Callable[[Any], object],
    model: Learner,
    errors: type[Exception] | tuple[type[Exception], ...],
) -> None:
    try:
        call(model)
    except errors:
        return
    raise AssertionError(f"{call} raised no error on {model!r}")


def check_impossible(subject: Subject) -> None:
    """Check that possible statistics pass `check` and impossible ones do not."""
    subject.make().check()
    subject.learned(range(subject.pool)).check()
    for statistics in subject.impossible:
        model = subject.make()
        model.merge(statistics)
        _expect_refusal(lambda learner: learner.check(), model, Impossible)


def check_files(subject: Subject) -> None:
    """Check that a loaded learner is equal to the saved one."""
    model = subject.learned(range(subject.pool))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner"
        model.save(path)
        loaded = type(model).load(path)
    assert loaded.digest() == model.digest(), "a file does not give the statistics back"
    assert loaded.settings == model.settings, "a file does not give the settings back"
    _check_predictions(subject, loaded, model)
    subject.forget(loaded, range(subject.pool))
    assert loaded.statistics.is_zero, "a loaded learner cannot forget"


def check_description(subject: Subject) -> None:
    """Check what a learner states about itself: settings, records, number of examples."""
    model = subject.learned(range(subject.pool))
    shown = repr(model)
    for name, value in model.settings.items():
        assert f"{name}={value!r}" in shown, f"{name} is missing in {shown}"
    rebuilt = type(model).from_schema(model.schema)
    rebuilt.merge(model.statistics)
    assert rebuilt.digest() == model.digest(), "not rebuilt from its schema"
    assert model.example_count in (None, subject.pool), "a wrong number of examples"
    records = model.records_of(*subject.examples)
    counts = [model.count_records(total) for total in (model.statistics, -model.statistics)]
    assert counts in ([None, None], [len(records), -len(records)]), "a wrong number of records"
    statistics, work = statistics_of(subject.make, records)
    assert statistics == model.statistics, "records do not give the statistics of examples"
    assert work.operations == model.last_work.operations, "records do not give the work of examples"
    for name, array in model.derived_arrays().items():
        assert array.dtype.kind in "biufU", f"{name} cannot be saved without pickle"


def check_update(subject: Subject) -> None:
    """Check that one signed pass equals learning and forgetting, on examples and on records."""
    old, new = subject.at(range(subject.pool // 2)), subject.at(range(1, subject.pool))
    model, expected = subject.make(), subject.make()
    model.learn(*old)
    expected.learn(*new)
    delta = model.update(new, old)
    assert model.digest() == expected.digest(), "a signed pass leaves other statistics"
    _check_predictions(subject, model, expected)
    change = subject.make().difference(model.records_of(*new), model.records_of(*old))
    assert change.delta == delta, "records give another difference"
    _expect_refusal(lambda learner: learner.update((), subject.examples), model, NotLearned)
    assert model.digest() == expected.digest(), "a refused pass changed the statistics"
