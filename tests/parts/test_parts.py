"""One model from many parts: the digest of one learner that has seen all rows."""

import io
import multiprocessing
import os
import random
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
from tests.learners.test_interrupts import interrupted

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


def test_forgetting_parts_that_is_interrupted_at_any_line_has_changed_nothing() -> None:
    before = _alone(slice(100))
    line, raised = 1, True
    while raised:
        model = dealfl.learn([(X[:100], Y[:100])], MODEL())
        forget = partial(dealfl.forget, [(X[:10], Y[:10])], model)
        raised = bool(interrupted(forget, line, KeyboardInterrupt))
        assert model.digest() == (before if raised else _alone(slice(10, 100))), f"line {line}"
        line += 5
    assert line > 500


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


def _file(folder: Path, kind: str) -> Path:
    """Write the rows into a file of a kind."""
    path = folder / f"rows{kind}"
    if kind == ".npz":
        np.savez_compressed(path, X=X, y=Y)
    elif kind == ".csv":
        FRAME.to_csv(path, index=False)
    else:
        FRAME.to_parquet(path)
    return path


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


@pytest.mark.parametrize("kind", [".npz", ".csv", ".parquet"])
@pytest.mark.parametrize(
    "content", [b"", b"\0" * 999, bytes(range(256)) * 4, b"PK\x03\x04", b"PAR1PAR1", _npy(), b'"\n']
)
def test_a_file_of_something_else_is_named(tmp_path: Path, kind: str, content: bytes) -> None:
    path = tmp_path / f"rows{kind}"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"^part 1: "):
        dealfl.learn([(X, Y), path], MODEL(), target="price")


def _damaged(content: bytes, draw: random.Random) -> bytes:
    """Return a file that was cut off, or in which some bytes are others."""
    if draw.random() < 0.3:
        return content[: draw.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(draw.choice((1, 3, 30))):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def _check_damages(folder: Path, kind: str, seeds: range) -> int:
    """Learn damaged files; return how many are refused, with the number of the part."""
    path, refused = _file(folder, kind), 0
    content = path.read_bytes()
    for seed in seeds:
        path.write_bytes(_damaged(content, random.Random(seed)))
        model, told = MODEL(), ""
        try:
            dealfl.learn([(X, Y), path], model, target="price")
        except BadInput as error:
            told = str(error)
        assert not told or told.startswith("part 1: "), (seed, told)
        assert not told or model.digest() == MODEL().digest(), seed
        refused += bool(told)
    return refused


@pytest.mark.filterwarnings("default")  # of pandas, about mixed columns
@pytest.mark.parametrize("kind", [".npz", ".csv", ".parquet"])
def test_a_damaged_file_is_refused_with_the_number_of_its_part(tmp_path: Path, kind: str) -> None:
    assert _check_damages(tmp_path, kind, range(100)) > 20


@pytest.mark.soak
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", [".npz", ".csv", ".parquet"])
def test_thousands_of_damaged_files_are_refused(tmp_path: Path, kind: str) -> None:
    assert _check_damages(tmp_path, kind, range(1_000, 6_000)) > 1_000


def test_an_executor_that_dies_leaves_the_learner_as_it_was() -> None:
    model = MODEL()
    with ProcessPoolExecutor(1, FORK) as pool, pytest.raises(ExecutorLost):
        dealfl.learn([(X, Y), partial(exit_now, 3)], model, pool)
    assert model.digest() == MODEL().digest()


def exit_now(code: int) -> None:
    os._exit(code)
