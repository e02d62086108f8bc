"""One model from many parts: the digest of one learner that has seen all rows."""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import dealfl
from dealfl import BadInput, NaiveBayes, NotLearned, PersonalizedPageRank, Tikhonov
from dealfl.parallel import ExecutorLost

pd: Any = pytest.importorskip("pandas")
RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (200, 3))
Y = X @ [0.5, -0.25, 0.125]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(price=Y)
MODEL = partial(Tikhonov, 3, intercept=True)
FORK = multiprocessing.get_context("fork")


def _alone(rows: slice = slice(None)) -> str:
    model = MODEL()
    model.learn(X[rows], Y[rows])
    return model.digest()


def make(first: int) -> Any:
    return X[first : first + 50], Y[first : first + 50]


def make_frame(first: int) -> Any:
    return FRAME[first : first + 50]


def _files(folder: Path) -> list[Any]:
    for first in (0, 50):
        np.savez(folder / f"{first}.npz", X=X[first : first + 50], y=Y[first : first + 50])
    FRAME[100:150].to_csv(folder / "100.csv", index=False)
    FRAME[150:].to_parquet(folder / "150.parquet")
    return [folder / "0.npz", str(folder / "50.npz"), folder / "100.csv", folder / "150.parquet"]


def test_the_digest_does_not_depend_on_parts_or_executor(tmp_path: Path) -> None:
    ways: list[Callable[[], Any]] = [
        lambda: [(X, Y)],
        lambda: [(X[:7], Y[:7]), (X[7:190], Y[7:190]), (X[190:], Y[190:])],
        lambda: ((X[n : n + 1], Y[n : n + 1]) for n in range(200)),
        lambda: [partial(make, first) for first in (150, 0, 100, 50)],
        lambda: [FRAME[:20], partial(make_frame, 50), FRAME[20:50], partial(make_frame, 100),
                 FRAME[150:]],
        lambda: _files(tmp_path),
    ]  # fmt: skip
    with ProcessPoolExecutor(2, FORK) as pool, ThreadPoolExecutor(2) as threads:
        for way in ways:
            for executor in (None, pool, threads):
                model = dealfl.learn(way(), MODEL(), executor, target="price")
                assert model.digest() == _alone()
    assert np.array_equal(dealfl.learn([(X, Y)], MODEL()).predict(X[:3]), model.predict(X[:3]))


def test_forgotten_parts_were_never_there() -> None:
    model = dealfl.learn([(X, Y)], MODEL())
    with ThreadPoolExecutor(2) as threads:
        forgotten = dealfl.forget([partial(make, 50), partial(make, 150)], model, threads)
    assert forgotten is model
    alone = dealfl.learn([partial(make, 0), partial(make, 100)], MODEL())
    assert model.digest() == alone.digest()
    with pytest.raises(NotLearned):
        dealfl.forget([(X, Y)], model)
    assert model.digest() == alone.digest()


def test_histories_and_classes_have_parts_too() -> None:
    histories: Any = sparse.csr_array(RNG.random((60, 9)) < 0.3, dtype=np.float64)
    whole = PersonalizedPageRank(9)
    whole.learn(histories)
    parts = [histories[:10], [np.flatnonzero(row).tolist() for row in histories[10:].toarray()]]
    assert dealfl.learn(parts, PersonalizedPageRank(9)).digest() == whole.digest()
    labels = np.where(X[:, 0] > 0, "up", "down")
    counts = partial(NaiveBayes, 3, ["up", "down"], feature_bound=2.0, offset=-1.0)
    alone = counts()
    alone.learn(X, labels)
    frames = [FRAME[["a", "b", "c"]].assign(way=labels)[n::3] for n in range(3)]
    learned = dealfl.learn(frames, counts(), target="way")
    assert learned.digest() == alone.digest()
    assert learned.feature_names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (X, "part 1: it is a ndarray; a part is"),
        (FRAME.rename(columns={"price": "cost"}), "part 1: it has no column 'price'; it has: a, b"),
        (FRAME.rename(columns={"b": "z"}), "part 1: its columns are not those .* 'z' instead of"),
        (FRAME[["a", "b", "price"]], "part 1: .*2"),
        ((X[:, :2], Y), "part 1: .*2"),
        ((X * 9, Y), "part 1: .*bound"),
        ("none.npz", "part 1: none.npz does not exist where the part is learned"),
        ("rows.txt", "part 1: rows.txt is not .npz, .csv or .parquet"),
    ],
)
@pytest.mark.parametrize("threads", [False, True])
def test_a_part_that_does_not_fit_is_named_and_nothing_is_learned(
    part: Any, told: str, threads: bool
) -> None:
    model = MODEL()
    pool = ThreadPoolExecutor(1) if threads else None
    with pytest.raises(BadInput, match=told):
        dealfl.learn([FRAME, part], model, pool, target="price")
    assert model.digest() == MODEL().digest()


def test_an_executor_that_dies_leaves_the_learner_as_it_was() -> None:
    model = MODEL()
    with ProcessPoolExecutor(1, FORK) as pool, pytest.raises(ExecutorLost):
        dealfl.learn([(X, Y), partial(exit_now, 3)], model, pool)
    assert model.digest() == MODEL().digest()


def exit_now(code: int) -> None:
    os._exit(code)
