"""A call that raises has changed nothing: errors are injected at every line of a small call."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from types import FrameType
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import dealfl.exact
import dealfl.learners
import dealfl.storage
from dealfl.exact import PagedStorage, compiled
from dealfl.learners import (
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Tikhonov,
    TikhonovClassifier,
)
from dealfl.storage import ThetaLru
from tests.memory.arrays import no_sync

FOLDERS = tuple(
    str(Path(str(package.__file__)).parent)
    for package in (dealfl.exact, dealfl.learners, dealfl.storage)
)
ERRORS = (KeyboardInterrupt, MemoryError)

RANDOM = np.random.default_rng(3)
ROWS = RANDOM.uniform(0.0, 1.0, (40, 34))
TARGETS = ROWS.mean(axis=1)
LABELS = RANDOM.integers(0, 3, 40)
IDS = 7 * np.arange(40)[::-1] + 3
HISTORIES = sparse.csr_array((RANDOM.uniform(size=(40, 12)) < 0.4).astype(float))


@dataclass(frozen=True)
class Case:
    """A learner with what it has learned, and the answers that are compared."""

    make: Callable[[], Learner]
    examples: tuple[Any, ...]
    answers: Callable[[Any], Any]

    def part(self, start: int, stop: int) -> tuple[Any, ...]:
        return tuple(each[start:stop] for each in self.examples)

    def gone(self, start: int, stop: int) -> tuple[Any, ...]:
        """Return the arguments by which a part is forgotten."""
        return self.part(start, stop)

    def learned(self, *ranges: tuple[int, int]) -> Any:
        model = self.make()
        for start, stop in ranges:
            model.learn(*self.part(start, stop))
        return model


class ById(Case):
    """Examples are forgotten by the ids under which they were learned."""

    def gone(self, start: int, stop: int) -> tuple[Any, ...]:
        return None, None, self.examples[2][start:stop]


_FOLDER = TemporaryDirectory()  # for files of pages, until this process ends


def _pages(frames: int = 1) -> PagedStorage:
    """Return storage in a new folder, with hardly any page in memory."""
    return PagedStorage(Path(mkdtemp(dir=_FOLDER.name)), ThetaLru(frames), sync=no_sync)


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
    "neighbors-ids": ById(
        lambda: Neighbors(34, [0, 1, 2], tables=2, bits=8, min_bucket=1),
        (ROWS, LABELS, IDS),
        _nearest,
    ),
    "ridge-paged": Case(
        lambda: Tikhonov(34, storage=_pages()), (ROWS, TARGETS), lambda model: model.weights
    ),
    "neighbors-paged": Case(
        lambda: Neighbors(34, [0, 1, 2], tables=2, bits=8, min_bucket=1, storage=_pages()),
        (ROWS, LABELS),
        _nearest,
    ),
    "pagerank-paged": Case(
        lambda: PersonalizedPageRank(12, storage=_pages()), (HISTORIES,), _similar
    ),
    "pagerank": _pagerank(),
    "pagerank-full": _pagerank(layout="full", item_order=np.arange(12)[::-1]),
}


def _records(case: Case, *places: int) -> Any:
    parts = [_dense(each) for each in case.part(*places)[:2]]  # without ids
    return case.make().records_of(*parts)


def _dense(part: Any) -> Any:
    return part.toarray() if hasattr(part, "toarray") and part.shape[1] == 34 else part


CALLS: dict[str, Callable[[Case], tuple[str, tuple[Any, ...]]]] = {
    "learn many": lambda case: ("learn", case.part(30, 40)),
    "update": lambda case: ("update", (case.part(30, 32)[:2], case.part(0, 1)[:2])),
    "learn one": lambda case: ("learn", case.part(30, 31)),
    "forget one": lambda case: ("forget", case.gone(0, 1)),
    "forget some": lambda case: ("forget", case.gone(0, 3)),
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


class Errors:
    """An error before the n-th line of learners, and perhaps another before the n-th call after it.

    Python ends a tracer that has raised an error, so the other one comes from a profiler.
    """

    def __init__(self, line: int, error: type[BaseException], again: int) -> None:
        self.lines, self.calls, self.error = line, again, error

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(FOLDERS):
            return None
        if event == "line":
            self.lines -= 1
            if self.lines == 0:
                raise self.error(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return self.trace

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        is_call = event in ("call", "c_call") and frame.f_code.co_filename.startswith(FOLDERS)
        if self.lines <= 0 < self.calls and is_call:
            self.calls -= 1
            if self.calls == 0:
                raise self.error(f"{frame.f_code.co_filename}:{frame.f_lineno}, again")


def interrupted(
    call: Callable[[], object], line: int, error: type[BaseException], again: int = 0
) -> bool | None:
    """Raise an error before the n-th line of learners; return None if the call has fewer.

    With `again`, raise another before the n-th call after it, while the change is taken back.
    """
    errors = Errors(line, error, again)
    sys.settrace(errors.trace)
    sys.setprofile(errors.profile if again else None)
    try:
        call()
    except error:
        return True
    finally:
        sys.setprofile(None)
        sys.settrace(None)
    return None if errors.lines > 0 else False


def same(ours: Any, theirs: Any) -> bool:
    """Return whether answers are equal, floats up to rounding."""
    if isinstance(ours, list):
        return bool(ours == theirs)
    return bool(np.allclose(ours, theirs, rtol=1e-9, atol=1e-12))


def check_every_line(case: Case, name: str, arguments: tuple[Any, ...], again: int = 0) -> int:
    """Interrupt a call at every line, then let it end; return the number of lines."""
    expected = case.learned((0, 30))
    before, answers = expected.digest(), case.answers(expected)
    getattr(expected, name)(*arguments)  # also has every loop compiled
    model = case.learned((0, 30))
    assert same(case.answers(model), answers)
    call = partial(getattr(model, name), *arguments)
    line, work = 1, model.last_work
    while (raised := interrupted(call, line, ERRORS[line % 2], again)) is not None:
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


SOAKED = ("neighbors-ids", "ridge-paged", "neighbors-paged", "pagerank-paged")
ONCE = {("neighbors-ids", "forget some"), ("ridge-paged", "merge")}  # in the suite


def _cases() -> list[Any]:
    """Return learners and calls; most of those that are slow only in the soak."""
    cases = []
    for name, call in product(CASES, CALLS):
        is_quick = (name, call) in ONCE or (name not in SOAKED and call in QUICK)
        cases.append(pytest.param(name, call, marks=[] if is_quick else pytest.mark.soak))
    return cases


@pytest.mark.parametrize(("name", "call"), _cases())
@pytest.mark.usefixtures("loops")
def test_a_call_that_is_interrupted_at_any_line_has_changed_nothing(name: str, call: str) -> None:
    assert check_every_line(CASES[name], *CALLS[call](CASES[name])) > 20


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a generator
@pytest.mark.parametrize("again", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", ["ridge", "naive-bayes", "neighbors", "pagerank"])
@pytest.mark.usefixtures("loops")
def test_a_second_interrupt_does_not_stop_what_takes_a_change_back(name: str, again: int) -> None:
    assert check_every_line(CASES[name], *CALLS["learn one"](CASES[name]), again) > 20


def _names() -> list[Any]:
    """Return learners; those whose answers keep no weights only in the soak."""
    quick = [name for name in CASES if name.startswith("ridge") and name not in SOAKED]
    return [pytest.param(name, marks=[] if name in quick else pytest.mark.soak) for name in CASES]


@pytest.mark.parametrize("name", _names())
@pytest.mark.usefixtures("loops")
def test_an_answer_that_is_interrupted_at_any_line_leaves_the_next_one_right(name: str) -> None:
    case = CASES[name]
    expected = case.learned((0, 30))
    digest, answers = expected.digest(), case.answers(expected)
    line, raised = 1, True
    while raised:
        model = case.learned((0, 30))
        raised = bool(interrupted(partial(case.answers, model), line, ERRORS[line % 2]))
        assert same(case.answers(model), answers), f"after an error at line {line}"
        assert model.digest() == model.statistics.digest() == digest
        line += 1
    assert line > 20
