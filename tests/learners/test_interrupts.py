"""A call that raises has changed nothing: errors are injected at every line of a small call."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import dealfl.exact
import dealfl.learners
from dealfl.exact import compiled
from dealfl.learners import (
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Tikhonov,
    TikhonovClassifier,
)

FOLDERS = tuple(
    str(Path(str(package.__file__)).parent) for package in (dealfl.exact, dealfl.learners)
)
ERRORS = (KeyboardInterrupt, MemoryError)

RANDOM = np.random.default_rng(3)
ROWS = RANDOM.uniform(0.0, 1.0, (40, 34))
TARGETS = ROWS.mean(axis=1)
LABELS = RANDOM.integers(0, 3, 40)
HISTORIES = sparse.csr_array((RANDOM.uniform(size=(40, 12)) < 0.4).astype(float))


@dataclass(frozen=True)
class Case:
    """A learner with what it has learned, and the answers that are compared."""

    make: Callable[[], Learner]
    examples: tuple[Any, ...]
    answers: Callable[[Any], Any]

    def part(self, start: int, stop: int) -> tuple[Any, ...]:
        return tuple(each[start:stop] for each in self.examples)

    def learned(self, *ranges: tuple[int, int]) -> Any:
        model = self.make()
        for start, stop in ranges:
            model.learn(*self.part(start, stop))
        return model


def _similar(model: PersonalizedPageRank) -> list[Any]:
    return [[each.tolist() for each in model.similar(item, 12)] for item in range(12)]


def _nearest(model: Neighbors) -> list[Any]:
    nearest = [[each.tolist() for each in row] for row in model.nearest(ROWS[:8])]
    return [nearest, model.predict(ROWS).tolist(), model.predict_votes(ROWS).tolist()]


def _ridge(**settings: Any) -> Case:
    return Case(lambda: Tikhonov(34, **settings), (ROWS, TARGETS), lambda model: model.weights)


def _pagerank(**settings: Any) -> Case:
    return Case(lambda: PersonalizedPageRank(12, **settings), (HISTORIES,), _similar)


CASES = {
    "ridge": _ridge(),
    "ridge-qr": _ridge(solver="qr", intercept=True),
    "ridge-22-bits": _ridge(fraction_bits=19, solver="cholesky"),
    "ridge-classifier": Case(
        lambda: TikhonovClassifier(34, [0, 1, 2]), (ROWS, LABELS), lambda model: model.weights
    ),
    "naive-bayes": Case(
        lambda: NaiveBayes(34, [0, 1, 2]),
        (ROWS, LABELS),
        lambda model: model.predict_log_proba(ROWS),
    ),
    "naive-bayes-csr": Case(
        lambda: NaiveBayes(34, [0, 1, 2]),
        (sparse.csr_array(ROWS), LABELS),
        lambda model: model.predict_log_proba(ROWS),
    ),
    "neighbors": Case(
        lambda: Neighbors(34, [0, 1, 2], tables=2, bits=8, min_bucket=1), (ROWS, LABELS), _nearest
    ),
    "pagerank": _pagerank(),
    "pagerank-full": _pagerank(layout="full", item_order=np.arange(12)[::-1]),
}


def _records(case: Case, *places: int) -> Any:
    parts = [_dense(each) for each in case.part(*places)]
    return case.make().records_of(*parts)


def _dense(part: Any) -> Any:
    return part.toarray() if hasattr(part, "toarray") and part.shape[1] == 34 else part


CALLS: dict[str, Callable[[Case], tuple[str, tuple[Any, ...]]]] = {
    "learn many": lambda case: ("learn", case.part(30, 40)),
    "update": lambda case: ("update", (case.part(30, 32), case.part(0, 1))),
    "learn one": lambda case: ("learn", case.part(30, 31)),
    "forget one": lambda case: ("forget", case.part(0, 1)),
    "forget some": lambda case: ("forget", case.part(0, 3)),
    "records": lambda case: ("update_records", (_records(case, 30, 32), _records(case, 0, 2))),
    "merge": lambda case: ("merge", (case.learned((30, 31)).statistics,)),
}
QUICK = ("learn many", "update")  # which take every way once


@pytest.fixture(params=["plain", "compiled"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose numpy as a process does that has just started, or compiled loops."""
    if request.param == "plain":
        monkeypatch.setattr(compiled, "_ENOUGH_S", np.inf)
        monkeypatch.setattr(compiled.CHOICE, "mode", "auto")
        for pair in compiled._twins:
            monkeypatch.setattr(pair, "loop", None)
    else:
        pytest.importorskip("numba")
        monkeypatch.setattr(compiled.CHOICE, "mode", "always")


def interrupted(call: Callable[[], object], line: int, error: type[BaseException]) -> bool | None:
    """Raise an error before the n-th line of learners; return None if the call has fewer."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(FOLDERS):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise error(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return trace

    sys.settrace(trace)
    try:
        call()
    except error:
        return True
    finally:
        sys.settrace(None)
    return None if left > 0 else False


def same(ours: Any, theirs: Any) -> bool:
    """Return whether answers are equal, floats up to rounding."""
    if isinstance(ours, list):
        return bool(ours == theirs)
    return bool(np.allclose(ours, theirs, rtol=1e-9, atol=1e-12))


def check_every_line(case: Case, name: str, arguments: tuple[Any, ...]) -> int:
    """Interrupt a call at every line, then let it end; return the number of lines."""
    expected = case.learned((0, 30))
    before, answers = expected.digest(), case.answers(expected)
    getattr(expected, name)(*arguments)  # also has every loop compiled
    model = case.learned((0, 30))
    assert same(case.answers(model), answers)
    call = partial(getattr(model, name), *arguments)
    line, work = 1, model.last_work
    while (raised := interrupted(call, line, ERRORS[line % 2])) is not None:
        where = f"after an error at line {line} of {name}"
        assert raised, f"{where}, no error"
        assert model.last_work == work, f"{where}, other work"
        assert model.digest() == before, f"{where}, another digest"
        assert model.statistics.digest() == before, f"{where}, other statistics"
        assert same(case.answers(model), answers), f"{where}, other answers"
        line, work = line + 1, model.last_work
    assert model.digest() == model.statistics.digest() == expected.digest()
    assert same(case.answers(model), case.answers(expected))
    return line


@pytest.mark.parametrize(
    "call",
    [*QUICK, *(pytest.param(name, marks=pytest.mark.soak) for name in CALLS if name not in QUICK)],
)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("loops")
def test_a_call_that_is_interrupted_at_any_line_has_changed_nothing(name: str, call: str) -> None:
    assert check_every_line(CASES[name], *CALLS[call](CASES[name])) > 20
