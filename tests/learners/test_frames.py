"""Learners take frames, series, string classes, scalars and lists; they keep column names."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dealfl.errors import BadBytes, BadInput
from dealfl.learners import (
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    RowLearner,
    SavedLearner,
    Tikhonov,
    TikhonovClassifier,
    load,
)

pd: Any = import_module("pandas")

NAMES = ["a", "b", "c"]
X = np.random.default_rng(0).integers(0, 8, (30, 3)).astype(np.float64) / 8
Y = np.where(X[:, 0] > X[:, 1], "big", "small")


def make(kind: str) -> Any:
    if kind == "tikhonov":
        return Tikhonov(3, feature_bound=np.float32(1), penalty=np.float64(0.5), target_bound=2)
    made: dict[str, Any] = {
        "naive_bayes": NaiveBayes, "neighbors": Neighbors, "classifier": TikhonovClassifier,
    }  # fmt: skip
    return made[kind](np.int64(3), pd.Series(["big", "small"]), feature_bound=np.int32(1))


KINDS = ["tikhonov", "classifier", "naive_bayes", "neighbors"]


def targets(kind: str) -> Any:
    return X.sum(axis=1) / 2 if kind == "tikhonov" else Y


def tables(y: Any) -> dict[str, tuple[Any, Any]]:
    frame = pd.DataFrame(X, columns=NAMES)
    arrow = frame.convert_dtypes(dtype_backend="pyarrow")
    series = pd.Series(y, name="y")
    return {
        "array": (X, y),
        "float32": (X.astype(np.float32), y),
        "lists": (X.tolist(), y.tolist()),
        "scalars": ([list(row) for row in X], list(y)),
        "csr": (sparse.csr_array(X), y),
        "frame": (frame, series),
        "nullable": (frame.convert_dtypes(), series.convert_dtypes()),
        "pyarrow": (arrow, series.convert_dtypes(dtype_backend="pyarrow")),
        "categories": (frame, series.astype("category")),
        "one-column frame": (frame, series.to_frame()),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_digest(kind: str) -> None:
    plain = make(kind)
    plain.learn(X, targets(kind))
    for name, (rows, y) in tables(targets(kind)).items():
        if kind == "tikhonov" and name == "categories":
            continue
        model = make(kind)
        model.learn(rows, y)
        assert model.digest() == plain.digest(), name
        assert model.predict(rows).tolist() == plain.predict(X).tolist(), name
        assert model.score(rows, y) == plain.score(X, targets(kind)), name
        model.forget(rows, y)
        assert model.statistics.is_zero, name


@pytest.mark.parametrize("kind", KINDS)
def test_column_names_are_kept_checked_and_saved(kind: str, tmp_path: Path) -> None:
    frame, y = pd.DataFrame(X, columns=NAMES), targets(kind)
    model = make(kind)
    assert not model.feature_names
    model.learn(frame, y)
    assert model.feature_names == ("a", "b", "c")
    model.save(tmp_path / "model")
    for one in (model, load(tmp_path / "model")):
        assert isinstance(one, RowLearner)
        with pytest.raises(BadInput, match=r"another order: column 0 is 'b', .* learned 'a'"):
            one.predict(frame[["b", "a", "c"]])
        with pytest.raises(BadInput, match="missing: 'c'; unknown: 'd'"):
            one.learn(frame.rename(columns={"c": "d"}), y)
        with pytest.raises(BadInput, match="missing: 'c'; unknown: 'd'"):
            one.forget(frame.rename(columns={"c": "d"}), y)
        assert one.digest() == model.digest()
        assert len(one.predict(X)) == len(X)  # an array has no names to check
        assert len(one.predict(pd.DataFrame(X))) == len(X)  # nor have numbered columns


def test_a_refused_frame_leaves_no_names_behind() -> None:
    model = make("naive_bayes")
    with pytest.raises(BadInput):
        model.learn(pd.DataFrame(X * 9, columns=NAMES), Y)
    assert model.feature_names == ()


def test_files_without_names_still_load_and_names_that_do_not_fit_are_refused(
    tmp_path: Path,
) -> None:
    model = make("naive_bayes")
    model.learn(X, Y)
    model.save(tmp_path / "model")
    saved = SavedLearner.read(tmp_path / "model")
    assert set(saved.sections) == {"statistics"}
    for content in (b'["a"]', b"[1,2,3]", b"{"):
        model.save(tmp_path / "other", {"feature_names": content})
        with pytest.raises(BadBytes, match="saved feature names"):
            load(tmp_path / "other")


def test_a_text_column_is_named() -> None:
    frame = pd.DataFrame(X, columns=NAMES).assign(b="red")
    with pytest.raises(BadInput, match="column 'b' holds text"):
        make("naive_bayes").learn(frame, Y)


def test_a_missing_value_is_refused_with_its_row() -> None:
    frame = pd.DataFrame(X, columns=NAMES).convert_dtypes(dtype_backend="pyarrow")
    frame.loc[4, "b"] = None
    with pytest.raises(BadInput, match="row 4"):
        make("naive_bayes").learn(frame, Y)


def test_histories_are_lists_of_item_numbers_or_rows_of_zeros_and_ones() -> None:
    table = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
    expected = PersonalizedPageRank(4)
    expected.learn(sparse.csr_array(table))
    for histories in (
        table, table.tolist(), pd.DataFrame(table), [[1, 0], (1, 2), {3}],
        [np.array([0, 1]), [np.int32(2), 1], [3]],
    ):  # fmt: skip
        model = PersonalizedPageRank(4)
        model.learn(histories)
        assert model.digest() == expected.digest()
        assert model.recommend(pd.Series([0]), k=1)[0].tolist() == [1]
        model.forget(histories)
        assert model.statistics.is_zero
    with pytest.raises(BadInput, match="item 4 is out of range"):
        expected.learn([[0, 4]])
    with pytest.raises(BadInput, match="history 1 has item 2 twice"):
        expected.learn([[0], [2, 2]])
