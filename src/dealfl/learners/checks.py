"""The contract of a learner, as checks that any learner can be put through.

Who writes a learner describes it as a `Subject` (how to make one, a pool of examples, calls that
must be refused, statistics that are impossible) and calls `check_learner`:

    check_learner(Subject.of_rows(make, X, y, ...), interleavings=1000)

Each check raises `AssertionError` with what was expected.
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
from dealfl.learners.base import Learner
from dealfl.learners.kinds import HistoryLearner, RowLearner
from dealfl.learners.records import statistics_of
from dealfl.statistics import Statistics

__all__ = ["Operation", "Subject", "check_interleaving", "check_learner", "random_operations"]

Places = Sequence[int]

_DRIFT = 1e-6  # of models only, which are floats; statistics are compared bit for bit


@dataclass(frozen=True, slots=True)
class Operation:
    """Learn or forget the examples of a pool at these places; a place may come twice."""

    learns: bool
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A learner to be checked, with a pool of examples for it, as `learn` takes them.

    `refused` are calls that raise `BadInput` (or `NotLearned`) on a learner that has learned the
    whole pool; `impossible` are statistics that no examples can have.
    """

    make: Callable[[], Learner]
    examples: tuple[Any, ...]
    refused: Sequence[Callable[[Any], object]] = ()
    impossible: Sequence[Statistics] = ()

    @classmethod
    def of_rows(
        cls,
        make: Callable[[], RowLearner],
        X: Any,  # noqa: ANN401
        y: Any,  # noqa: ANN401
        refused: Sequence[Callable[[Any], object]] = (),
        impossible: Sequence[Statistics] = (),
    ) -> Subject:
        """Return the subject for a learner of rows and targets."""
        return cls(make, (X, y), refused, impossible)

    @classmethod
    def of_histories(
        cls,
        make: Callable[[], HistoryLearner],
        histories: Any,  # noqa: ANN401
        refused: Sequence[Callable[[Any], object]] = (),
        impossible: Sequence[Statistics] = (),
    ) -> Subject:
        """Return the subject for a learner of histories."""
        return cls(make, (histories,), refused, impossible)

    @property
    def name(self) -> str:
        """The learner's name."""
        return self.make().name

    @property
    def pool(self) -> int:
        """How many examples there are."""
        return int(self.examples[0].shape[0])

    def at(self, places: Places) -> tuple[Any, ...]:
        """Return the examples at these places."""
        return tuple(part[list(places)] for part in self.examples)

    def learn(self, model: Learner, places: Places) -> Statistics:
        """Let a model learn the examples at these places."""
        return model.learn(*self.at(places))

    def forget(self, model: Learner, places: Places) -> Statistics:
        """Let a model forget the examples at these places."""
        return model.forget(*self.at(places))

    def learned(self, places: Places) -> Learner:
        """Return a new learner that has learned these examples in one batch."""
        model = self.make()
        self.learn(model, places)
        return model


def random_operations(generator: random.Random, pool: int, steps: int = 12) -> list[Operation]:
    """Return a random interleaving with duplicates, re-adds, empty batches and the last example."""
    held: Counter[int] = Counter()
    operations = []
    for _ in range(steps):
        size = generator.choice((0, 1, 1, 1, 2, 3, 5))
        learns = not held or generator.random() < 0.55
        if learns:
            places = generator.choices(range(pool), k=size)
            held.update(places)
        else:
            elements = sorted(held.elements())
            everything = generator.random() < 0.1
            places = (
                elements if everything else generator.sample(elements, min(size, len(elements)))
            )
            held.subtract(places)
            held = +held
        operations.append(Operation(learns, tuple(places)))
    return operations


def check_learner(subject: Subject, interleavings: int = 100, seed: int = 0) -> None:
    """Put a learner through every check, with that many random interleavings."""
    check_refusals(subject)
    check_impossible(subject)
    check_files(subject)
    check_description(subject)
    generator = random.Random(seed)  # noqa: S311
    for _ in range(interleavings):
        check_interleaving(subject, random_operations(generator, subject.pool))


def check_interleaving(subject: Subject, operations: Sequence[Operation]) -> None:
    """Check all that must hold after any sequence of learning and forgetting."""
    model, total = subject.make(), Statistics.zero(subject.make().schema)
    held: Counter[int] = Counter()
    for operation in operations:
        change = subject.learn if operation.learns else subject.forget
        delta = change(model, operation.places)
        _check_delta(subject, operation, delta, model)
        total = total + delta
        (held.update if operation.learns else held.subtract)(operation.places)
        model.check()
    survivors = sorted(held.elements())
    _check_survivors(subject, model, survivors)
    assert model.statistics == total, "the deltas do not add up to the statistics"


def _check_delta(subject: Subject, operation: Operation, delta: Statistics, model: Learner) -> None:
    """A delta is that of an empty learner, and its cost a formula, whatever was learned before."""
    alone = subject.make()
    learned = subject.learn(alone, operation.places)
    expected = learned if operation.learns else -learned
    assert delta == expected, "the delta depends on what was learned before"
    assert delta.is_zero == (not operation.places) or learned.is_zero
    assert model.last_work == alone.last_work, "work depends on what was learned before"
    subject.forget(alone, operation.places)
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
        ours, theirs = (one.predict(subject.examples[0]) for one in (model, scratch))
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
    """Order, batches and the worker that holds an example do not matter."""
    backwards, merged = subject.make(), subject.make()
    for place in reversed(survivors):
        subject.learn(backwards, [place])
    for part in (survivors[::2], survivors[1::2]):
        merged.merge(subject.learned(part).statistics)
    assert backwards.digest() == scratch.digest(), "the order of examples matters"
    assert merged.digest() == scratch.digest(), "the assignment to workers matters"


def check_refusals(subject: Subject) -> None:
    """What can not be used or was never learned is refused, and changes nothing."""
    empty = subject.make()
    blank = empty.digest()
    for place in range(subject.pool):
        if not subject.learned([place]).statistics.is_zero:
            _expect_refusal(lambda m, p=place: subject.forget(m, [p]), empty, NotLearned)  # type: ignore[misc]
    assert empty.digest() == blank, "a refused call changed the statistics"
    model = subject.learned(range(subject.pool))
    before = model.digest()
    for call in subject.refused:
        _expect_refusal(call, model, (BadInput, NotLearned))
        assert model.digest() == before, "a refused call changed the statistics"
        assert model.statistics.digest() == before, "a refused call changed a cell"
    subject.forget(model, range(subject.pool))
    assert model.statistics.is_zero, "a refused call left something behind"


def _expect_refusal(
    call: Callable[[Any], object],
    model: Learner,
    errors: type[Exception] | tuple[type[Exception], ...],
) -> None:
    try:
        call(model)
    except errors:
        return
    raise AssertionError(f"{call} was not refused by {model!r}")


def check_impossible(subject: Subject) -> None:
    """Possible statistics pass `check`; impossible ones do not."""
    subject.make().check()
    subject.learned(range(subject.pool)).check()
    for statistics in subject.impossible:
        model = subject.make()
        model.merge(statistics)
        _expect_refusal(lambda learner: learner.check(), model, Impossible)


def check_files(subject: Subject) -> None:
    """A saved learner goes on as if it had never been away."""
    model = subject.learned(range(subject.pool))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner"
        model.save(path)
        loaded = type(model).load(path)
    assert loaded.digest() == model.digest(), "a file does not give the statistics back"
    assert loaded.settings == model.settings, "a file does not give the settings back"
    _check_predictions(subject, loaded, model)
    subject.forget(loaded, range(subject.pool))
    assert loaded.statistics.is_zero, "a loaded learner can not forget"


def check_description(subject: Subject) -> None:
    """What a learner says of itself is true: its settings, its records, how many it learned."""
    model = subject.learned(range(subject.pool))
    shown = repr(model)
    for name, value in model.settings.items():
        assert f"{name}={value!r}" in shown, f"{name} is missing in {shown}"
    rebuilt = type(model).from_schema(model.schema)
    rebuilt.merge(model.statistics)
    assert rebuilt.digest() == model.digest(), "not rebuilt from its schema"
    assert model.example_count in (None, subject.pool), "a wrong number of examples"
    records = model.records_of(*subject.examples)
    statistics, work = statistics_of(subject.make, records)
    assert statistics == model.statistics, "records do not give the statistics of examples"
    assert work == model.last_work, "records do not give the work of examples"
    for name, array in model.derived_arrays().items():
        assert array.dtype.kind in "biufU", f"{name} can not be saved without pickle"
