"""Threads that share a learner wait for each other; a fork after compiled loops is exact."""

import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dealfl.errors import NotLearned
from dealfl.exact import CHOICE
from dealfl.learners import (
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Tikhonov,
    TikhonovClassifier,
)

RANDOM = np.random.default_rng(5)
ROWS = RANDOM.uniform(0.0, 1.0, (60, 12))
LABELS = RANDOM.integers(0, 3, 60)
HISTORIES = sparse.csr_array((RANDOM.uniform(size=(60, 12)) < 0.4).astype(float))
KINDS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ridge": (lambda: Tikhonov(12), (ROWS, ROWS.mean(axis=1))),
    "ridge classifier": (lambda: TikhonovClassifier(12, [0, 1, 2]), (ROWS, LABELS)),
    "naive Bayes": (lambda: NaiveBayes(12, [0, 1, 2]), (ROWS, LABELS)),
    "neighbours": (
        lambda: Neighbors(12, [0, 1, 2], tables=2, bits=8, min_bucket=1),
        (ROWS, LABELS),
    ),
    "pagerank": (lambda: PersonalizedPageRank(12), (HISTORIES,)),
}


@pytest.fixture(params=["never", "always"])
def _mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "always":
        pytest.importorskip("numba")
    monkeypatch.setattr(CHOICE, "mode", request.param)


def ask(model: Any) -> Any:
    return model.predict(ROWS[:3]) if hasattr(model, "predict") else model.similar(3, 12)


def through_pickle(model: Learner) -> Any:
    return pickle.loads(pickle.dumps(model))


def change(model: Learner, examples: tuple[Any, ...], rows: range) -> None:
    """Learn every row, forget every second one, and read the model in between."""
    for row in rows:
        part = tuple(each[row : row + 1] for each in examples)
        model.learn(*part)
        ask(model)
        if row % 2:
            model.forget(*part)
        model.digest()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.usefixtures("_mode")
def test_threads_that_share_a_learner_leave_what_one_thread_leaves(name: str) -> None:
    make, examples = KINDS[name]
    model, alone = make(), make()
    change(alone, examples, range(60))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            parts = [range(first, first + 15) for first in range(0, 60, 15)]
            for done in [pool.submit(change, model, examples, part) for part in parts]:
                done.result()
    finally:
        sys.setswitchinterval(before)
    assert model.digest() == model.statistics.digest() == alone.digest()
    if name != "neighbours":  # whose ids depend on the order of the calls
        np.testing.assert_allclose(ask(model), ask(alone), rtol=1e-9)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.usefixtures("_mode")
def test_what_is_read_while_another_thread_changes_a_learner_is_one_state(
    name: str, tmp_path: Path
) -> None:
    make, examples = KINDS[name]
    first, rest = (tuple(each[some] for each in examples) for some in (slice(20), slice(20, 60)))
    model, few, all_of_them = make(), make(), make()
    for learner in (model, few):
        learner.learn(*first)
    all_of_them.learn(*examples)
    states = {few.digest(), all_of_them.digest()}
    reading = True

    def go_on_changing() -> None:
        while reading:
            model.learn(*rest)
            model.forget(*rest)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(1) as pool:
            changing = pool.submit(go_on_changing)
            try:
                for _ in range(30):
                    model.save(tmp_path / "model")
                    for read in (copy, deepcopy, through_pickle):
                        assert read(model).statistics.digest() in states
                    assert type(model).load(tmp_path / "model").digest() in states
                    assert 0.0 <= model.change(few) <= 2.0
                    model.derived_arrays()
                    model.check()
            finally:
                reading = False
            changing.result()
    finally:
        sys.setswitchinterval(before)
    assert model.digest() == few.digest()


@pytest.mark.parametrize("name", KINDS)
def test_a_fork_after_compiled_loops_learns_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(CHOICE, "mode", "always")
    make, examples = KINDS[name]
    model = make()
    change(model, examples, range(20))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            change(model, examples, range(20, 40))
            os.write(writing, model.digest().encode())
        finally:
            os._exit(0)
    os.close(writing)
    change(model, examples, range(20, 40))
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read().decode() == model.digest()
    os.waitpid(child, 0)
    alone = make()
    change(alone, examples, range(40))
    assert alone.digest() == model.digest()


@pytest.mark.parametrize(
    "name", sorted(KINDS.keys() - {"neighbours"})
)  # which refuse before any change
def test_a_failing_call_takes_back_nothing_of_a_thread_that_waits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, examples = KINDS[name]
    model, alone = make(), make()
    first, second, third = (tuple(each[i : i + 20] for each in examples) for i in (0, 20, 40))
    for learner in (model, alone):
        learner.learn(*first)
    undo = model._undo
    started: list[bool] = []

    with ThreadPoolExecutor(1) as pool:

        def undo_late(given: Any) -> None:
            """Let another thread learn first, if it can."""
            if given:
                started.append(True)
                wait([pool.submit(model.learn, *second)], timeout=0.1)
            undo(given)

        monkeypatch.setattr(model, "_undo", undo_late)
        with pytest.raises(NotLearned):
            model.update(third, examples)  # of which 20 were never learned
    assert started == [True]
    alone.learn(*second)
    assert model.digest() == model.statistics.digest() == alone.digest()
