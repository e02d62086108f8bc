"""Multinomial naive Bayes against its definition and scikit-learn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.naive_bayes import MultinomialNB  # type: ignore[import-untyped]

from dealfl.errors import BadInput, Impossible, NotLearned
from dealfl.exact import BLOCK, PagedStorage
from dealfl.learners import Learner, NaiveBayes
from dealfl.storage import ThetaLru
from tests.memory.arrays import no_sync

RNG = np.random.default_rng(1)
X = RNG.poisson(1.5, (400, 12)).clip(0, 16)
Y = (X[:, 0] + X[:, 1] > X[:, 2] + RNG.poisson(1, 400)).astype(int)


def made(**other: Any) -> NaiveBayes:
    settings: dict[str, Any] = {"n_features": 12, "classes": [0, 1], "feature_bound": 16.0}
    return NaiveBayes(**(settings | other))


@pytest.mark.parametrize("smoothing", [1.0, 0.01])
def test_probabilities_are_those_of_scikit_learn(smoothing: float) -> None:
    model = made(smoothing=smoothing)
    model.learn(X, Y)
    oracle = MultinomialNB(alpha=smoothing).fit(X, Y)
    expected = oracle.predict_log_proba(X)
    assert model.predict_log_proba(X) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert model.predict(X).tolist() == oracle.predict(X).tolist()
    assert model.score(X, Y) == oracle.score(X, Y)


def test_statistics_are_counts_on_the_grid() -> None:
    model = NaiveBayes(2, ["x", "y"], feature_bound=4.0, fraction_bits=2)
    model.learn([[1, 2], [3, 0], [0, 4]], ["x", "x", "y"])
    assert model.statistics["counts"].to_dict() == {0: 2, 1: 1}
    assert model.statistics["sums"].to_dict() == {0: 4, 1: 2, 3: 4}


def test_sparse_and_dense_rows_are_the_same() -> None:
    dense, thin = made(), made()
    dense.learn(X, Y)
    thin.learn(sparse.csr_array(X), Y)
    assert dense.digest() == thin.digest()
    assert thin.predict(sparse.csr_array(X)).tolist() == dense.predict(X).tolist()


def test_an_offset_makes_signed_data_usable() -> None:
    shifted, plain = made(offset=-3.0), made()
    shifted.learn(X - 3.0, Y)
    plain.learn(X, Y)
    assert shifted.statistics["sums"].same(plain.statistics["sums"])
    assert shifted.predict(X - 3.0).tolist() == plain.predict(X).tolist()
    assert shifted.predict(sparse.csr_array(X - 3.0)).tolist() == plain.predict(X).tolist()
    assert shifted.digest() != plain.digest()


def test_a_class_whose_examples_are_forgotten_is_never_predicted() -> None:
    model = made()
    model.learn(X, Y)
    model.forget(X[Y == 1], Y[Y == 1])
    assert set(model.predict(X).tolist()) == {0}
    model.forget(X[Y == 0], Y[Y == 0])
    with pytest.raises(NotLearned, match="no example is learned"):
        model.predict(X)


def test_a_class_with_too_few_examples_is_named() -> None:
    model = made(classes=["ham", "spam"])
    model.learn(X[:1], ["spam"])
    with pytest.raises(NotLearned, match="class 'ham' has -1 examples"):
        model.forget(X[:1], ["ham"])


def test_the_last_feature_alone_in_its_block_is_part_of_the_digest() -> None:
    row = np.zeros((1, BLOCK + 1))
    row[0, -1] = 1.0
    model, other = (NaiveBayes(BLOCK + 1, classes=[0]) for _ in range(2))
    model.learn(row, [0])
    other.merge(model.statistics)
    assert model.digest() == other.digest()


def test_negative_counts_are_named() -> None:
    table = X.astype(float)
    table[17, 3] = -2
    with pytest.raises(BadInput, match=r"row 17, feature 3 is -2.0, outside \[0, 16\]"):
        made().learn(table, Y)
    with pytest.raises(BadInput, match=r"row 17, feature 3 is -2.0, outside \[0, 16\]"):
        made().learn(sparse.csr_array(table), Y)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_prediction_for_no_number_is_refused(form: Any) -> None:
    model = made()
    model.learn(X, Y)
    with pytest.raises(BadInput, match="nan"):
        model.predict(form(np.full((1, 12), np.nan)))


@pytest.mark.parametrize("smoothing", [0.0, -1.0, np.nan, np.inf])
def test_smoothing_must_be_above_zero(smoothing: float) -> None:
    with pytest.raises(BadInput, match=r"smoothing is .*; it must be a finite number > 0"):
        made(smoothing=smoothing)


@pytest.mark.parametrize("classes", [[], [1, 1], [[1], [2]], [np.nan, 1.0], [object()]])
def test_classes_must_be_different_labels(classes: Any) -> None:
    with pytest.raises(BadInput, match="classes"):
        made(classes=classes)


def test_an_unknown_class_is_named_with_its_row() -> None:
    with pytest.raises(BadInput, match="row 1 has class 7; known: 0, 1"):
        made().learn(X[:2], [1, 7])
    with pytest.raises(BadInput, match="row 0 has class 'a'; known: 0, 1"):
        made().learn(X[:2], ["a", "b"])


@pytest.mark.parametrize("labels", [[0.0, 1.0], [False, True], np.array([0, 1], dtype=object)])
def test_labels_that_equal_a_class_are_that_class(labels: Any) -> None:
    model, plain = made(), made()
    model.learn(X[:2], labels)
    plain.learn(X[:2], [0, 1])
    assert model.digest() == plain.digest()


def test_impossible_statistics_cannot_predict() -> None:
    model = made()
    model.learn(X[:5], Y[:5])
    model.merge(-made().learn(X[5:9], Y[5:9]))
    with pytest.raises(BadInput):
        model.predict(X)


def test_work_counts_what_is_stored() -> None:
    dense, thin = made(), made()
    dense.learn(X[:10], Y[:10])
    thin.learn(sparse.csr_array(X[:10]), Y[:10])
    assert dense.last_work.operations == 10 * 12 + 10
    assert thin.last_work.operations == np.count_nonzero(X[:10]) + 10


def test_more_features_than_a_schema_can_number_are_refused() -> None:
    with pytest.raises(BadInput, match="n_features"):
        NaiveBayes(2**24 + 1, ["a", "b"])


def test_the_work_of_a_call_counts_values_read_and_integers_changed() -> None:
    model = NaiveBayes(3, ["a", "b"], feature_bound=1.0)
    model.learn([[0.5, 0.0, 1.0]], ["a"])
    assert (model.last_work.operations, model.last_work.bytes) == (3 + 1, 3 * 8 + 3 * 2 * 8)
    model.predict([[0.5, 0.0, 1.0]] * 4)
    assert (model.last_work.operations, model.last_work.bytes) == (4 * 3 * 2, 4 * 3 * 8)


def test_a_learner_without_rules_of_its_own_checks_statistics_and_keeps_none() -> None:
    """As plug-ins are checked: by what they would hold."""
    other = NaiveBayes(2, [0, 1])
    some = other.learn([[0.5, 0.25]], [1])
    model = NaiveBayes(2, [0, 1])
    Learner.check_statistics(model, some)
    assert model.statistics.is_zero
    with pytest.raises(Impossible):
        Learner.check_statistics(model, -some)
    assert model.statistics.is_zero
    assert model.last_work == NaiveBayes(2, [0, 1]).last_work


def test_tables_in_pages_are_those_in_memory(tmp_path: Path) -> None:
    rows, labels = np.random.default_rng(0).random((30, 5)), np.arange(30) % 3
    whole = NaiveBayes(5, [0, 1, 2])
    paged = NaiveBayes(5, [0, 1, 2], storage=PagedStorage(tmp_path, ThetaLru(2), sync=no_sync))
    for model in (whole, paged):
        model.learn(rows, labels)
        model.forget(rows[3:9], labels[3:9])
        model.learn(rows[4:5], labels[4:5])
    assert paged.digest() == whole.digest()
    assert paged.predict(rows).tolist() == whole.predict(rows).tolist()
