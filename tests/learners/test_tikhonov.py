"""Ridge regression and classification: answers known on paper, oracles, and the live factor."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge, RidgeClassifier  # type: ignore[import-untyped]

from dealfl.errors import BadInput, NotLearned, OutOfBounds
from dealfl.exact import CHOICE
from dealfl.learners import Tikhonov, TikhonovClassifier
from dealfl.learners.ridge import plain
from dealfl.learners.ridge import weights as ridge_weights
from dealfl.learners.ridge.moments import packed
from dealfl.learners.ridge.weights import SOLVERS, CholeskyFactor, Factor, QrFactor, factorise

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (300, 40)) * np.geomspace(0.01, 1000, 40)
Y = X @ RNG.normal(size=40) / np.linalg.norm(X, axis=0).mean() + RNG.normal(size=300)
BOUND = 2.0 ** np.ceil(np.log2(np.abs(X).max(axis=0)))


def made(**other: Any) -> Tikhonov:
    settings: dict[str, Any] = {"n_features": 40, "feature_bound": BOUND, "target_bound": 64.0}
    return Tikhonov(**(settings | other))


def relative(first: Any, second: Any) -> float:
    return float(np.linalg.norm(first - second) / np.linalg.norm(second))


def test_moments_are_the_integers_of_the_examples() -> None:
    model = Tikhonov(2, feature_bound=[1.0, 4.0], target_bound=2.0, fraction_bits=30)
    model.learn([[0.1, 3.0], [-1.0, 0.5]], [1.25, -2.0])
    columns = [
        [1, 1],
        [round(Fraction(0.1) * 2**30), -(2**30)],
        [3 * 2**28, 2**27],
        [round(Fraction(1.25) * 2**29), -(2**30)],
    ]
    expected = {
        packed(i, j): sum(a * b for a, b in zip(columns[i], columns[j], strict=True))
        for i in range(4)
        for j in range(i + 1)
    }
    assert model.statistics["moments"].to_dict() == expected


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", [1.0, 1e-6, 1e4])
def test_predictions_are_those_of_scikit_learn(intercept: bool, penalty: float) -> None:
    model = made(penalty=penalty, intercept=intercept)
    model.learn(X, Y)
    oracle = Ridge(alpha=penalty, solver="cholesky", fit_intercept=intercept).fit(X, Y)
    assert relative(model.predict(X), oracle.predict(X)) < 1e-7
    assert model.bias == pytest.approx(float(oracle.intercept_), abs=1e-6)
    assert model.score(X, Y) == pytest.approx(oracle.score(X, Y), abs=1e-7)
    assert np.isnan(model.score(X[:0], Y[:0]))


@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_are_fresh_after_every_call(solver: str) -> None:
    model = made(solver=solver)
    model.learn(X[:200], Y[:200])
    for last in range(200, 230):
        assert model.weights is not model.weights
        model.learn(X[last : last + 1], Y[last : last + 1])
        model.forget(X[last - 200 : last - 199], Y[last - 200 : last - 199])
        kept = slice(last - 199, last + 1)
        oracle = Ridge(alpha=1.0, solver="cholesky", fit_intercept=False).fit(X[kept], Y[kept])
        assert relative(model.weights, oracle.coef_) < 1e-6


@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_follow_what_is_merged(solver: str) -> None:
    model, other = made(solver=solver), made()
    model.learn(X[:100], Y[:100])
    before = model.weights
    model.merge(other.learn(X[100:], Y[100:]))
    assert relative(model.weights, before) > 1e-3
    oracle = Ridge(alpha=1.0, solver="cholesky", fit_intercept=False).fit(X, Y)
    assert relative(model.weights, oracle.coef_) < 1e-6


@pytest.mark.parametrize("factor", [CholeskyFactor, QrFactor])
def test_a_down_date_that_would_lose_digits_is_given_up(factor: Any) -> None:
    row = np.array([3.0, 1.0])
    spent = factor(1e-6 * np.eye(2) + np.outer(row, row), np.ones((2, 1)))
    assert not spent.update(np.append(row, 1.0), -1)


@pytest.mark.parametrize("factor", [CholeskyFactor, QrFactor])
def test_a_factor_follows_rows_up_and_down(factor: Any) -> None:
    rows = np.random.default_rng(3).normal(size=(6, 14))  # 12 features and two targets
    live = factor(np.eye(12), np.ones((12, 2)))
    for row in rows:
        assert live.update(row, +1)
    for row in rows[:5]:
        assert live.update(row, -1)
    left, goals = np.split(rows[5], [12])
    right = np.ones((12, 2)) + np.outer(left, goals)
    expected = np.linalg.solve(np.eye(12) + np.outer(left, left), right)
    assert relative(live.solve(), expected) < 1e-12


@pytest.mark.parametrize("solver", ["cholesky", "qr", "auto"])
def test_a_row_at_the_bounds_leaves_no_error_behind(solver: str) -> None:
    model = made(solver=solver, penalty=1e-3)
    model.learn(X, Y)
    expected = model.weights
    extreme = BOUND[None, :]
    for _ in range(50):
        model.learn(extreme, [64.0])
        model.forget(extreme, [64.0])
    assert relative(model.weights, expected) < 1e-9


def test_the_default_solver_keeps_its_factor_for_single_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made_anew: list[int] = []

    def watched(matrix: Any, right: Any, solver: str) -> Factor:
        made_anew.append(len(matrix))
        return factorise(matrix, right, solver)

    monkeypatch.setattr(ridge_weights, "factorise", watched)
    model = made()
    for changed, factorised in ((slice(1, None), 1), (slice(0, 1), 1), (slice(0, 8), 2)):
        model.learn(X[changed], Y[changed])
        _ = model.weights
        assert len(made_anew) == factorised


def test_without_a_penalty_a_singular_problem_has_the_least_solution() -> None:
    model = Tikhonov(2, penalty=0.0, feature_bound=4.0, target_bound=4.0)
    model.learn([[1.0, 1.0], [2.0, 2.0]], [2.0, 4.0])
    assert model.weights == pytest.approx([1.0, 1.0])


def test_nothing_learned_predicts_nothing() -> None:
    assert made().predict(X[:2]).tolist() == [0.0, 0.0]


def test_a_value_outside_its_bound_is_named_with_row_column_and_bound() -> None:
    table = X.copy()
    table[250, 7] = 1e9
    with pytest.raises(OutOfBounds, match=r"row 250, feature 7 is 1000000000.0, outside \[-"):
        made().learn(table, Y)
    with pytest.raises(OutOfBounds, match=r"row 3, target 0 is 65.0, outside \[-64, 64\]"):
        made().learn(X, np.where(np.arange(300) == 3, 65.0, Y))


def test_clipping_is_explicit() -> None:
    clipped, bounded = made(clip=True), made()
    clipped.learn(X * 1e6, Y)
    bounded.learn(np.clip(X * 1e6, -BOUND, BOUND), Y)
    assert clipped.statistics["moments"].same(bounded.statistics["moments"])
    assert clipped.schema.settings == bounded.schema.settings | {"clip": True}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"penalty": -1.0}, "penalty is -1.0; it must be a finite number ≥ 0"),
        ({"penalty": np.nan}, "penalty"),
        ({"fraction_bits": 31}, "fraction_bits is 31; it must be a whole number from 1 to 30"),
        ({"fraction_bits": 0}, "fraction_bits"),
        ({"n_features": 0}, "n_features"),
        ({"n_features": 2.0}, "n_features"),
        ({"feature_bound": [1.0, 2.0]}, r"feature_bound has shape \(2,\)"),
        ({"feature_bound": 0.0}, "feature_bound is 0.0; it must lie between"),
        ({"feature_bound": np.inf}, "feature_bound is inf; it must be finite"),
        ({"target_bound": -2.0}, "target_bound"),
        ({"solver": "lu"}, "no solver called 'lu'; known: auto, cholesky, qr, refactor"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        made(**settings)


def test_penalty_and_solver_are_no_part_of_the_digest() -> None:
    digests = {made(penalty=p, solver=s).digest() for p in (0.1, 10.0) for s in SOLVERS}
    assert len(digests) == 1
    assert made(fraction_bits=20).digest() not in digests
    assert made(feature_bound=BOUND * 2).digest() not in digests


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: np.asfortranarray(x),
        lambda x: x[::-1][::-1],
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: _read_only(x),
        lambda x: sparse.csr_array(x),
        lambda x: sparse.csc_array(x),
        lambda x: sparse.coo_matrix(x),
        lambda x: x.tolist(),
    ],
)
def test_every_form_of_the_same_table_is_the_same(convert: Any) -> None:
    plain, other = made(), made()
    plain.learn(X, Y)
    other.learn(convert(X), Y.tolist())
    assert other.digest() == plain.digest()


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64, np.uint16, np.bool_])
def test_every_numeric_type_is_taken(dtype: Any) -> None:
    table = np.array([[0, 1], [1, 1]]).astype(dtype)
    model, plain = (Tikhonov(2, target_bound=2.0) for _ in range(2))
    model.learn(table, np.array([1, 2], dtype=np.int32))
    plain.learn(table.astype(np.float64), [1.0, 2.0])
    assert model.digest() == plain.digest()


def _read_only(table: Any) -> Any:
    frozen = table.copy()
    frozen.setflags(write=False)
    return frozen


def test_classes_are_distinguished_as_by_scikit_learn() -> None:
    labels = np.argmax(X[:, -3:], axis=1)
    model = TikhonovClassifier(40, [0, 1, 2], feature_bound=BOUND)
    model.learn(X[:200], labels[:200])
    oracle = RidgeClassifier(alpha=1.0, solver="cholesky").fit(X[:200], labels[:200])
    assert relative(model.weights, oracle.coef_) < 1e-6
    assert relative(model.bias, oracle.intercept_) < 1e-6
    assert model.predict(X[200:]).tolist() == oracle.predict(X[200:]).tolist()
    assert model.score(X[200:], labels[200:]) == oracle.score(X[200:], labels[200:])


def test_a_class_without_examples_is_never_predicted() -> None:
    model = TikhonovClassifier(1, ["yes", "no"])
    with pytest.raises(NotLearned, match="no example is learned"):
        model.predict([[0.0]])
    model.learn([[1.0], [-1.0]], ["yes", "no"])
    model.forget([[-1.0]], ["no"])
    assert set(model.predict([[-1.0], [0.0], [1.0]]).tolist()) == {"yes"}


def test_statistics_of_another_job_are_refused_by_name() -> None:
    other = made(fraction_bits=20).statistics
    with pytest.raises(BadInput, match="have fraction_bits = 20, but this model has"):
        made().merge(other)
    with pytest.raises(BadInput, match="learner tikhonov cannot be used by"):
        TikhonovClassifier(40, [1, 2]).merge(made().statistics)


def test_change_measures_how_far_the_weights_moved() -> None:
    model = made()
    model.learn(X, Y)
    before, weights = model.statistics, model.weights
    assert model.change(before) == 0.0
    model.forget(X[:100], Y[:100])
    moved = np.linalg.norm(model.weights - weights)
    larger = max(np.linalg.norm(model.weights), np.linalg.norm(weights))
    assert model.change(before) == pytest.approx(moved / larger)


def test_bounds_and_penalty_are_one_if_they_are_not_given() -> None:
    model = Tikhonov(1)
    model.learn([[1.0]], [1.0])
    assert model.weights.tolist() == pytest.approx([0.5]), "1 / (1 + penalty)"
    for row, target in (([1.5], 0.0), ([0.0], 1.5)):
        with pytest.raises(BadInput):
            model.learn([row], [target])


def test_the_work_of_a_batch_is_that_of_its_products_and_touches_each_moment_once() -> None:
    model = made()
    columns = 42  # 1, the features and the target
    for rows in (7, 50):
        model.learn(X[:rows], Y[:rows])
        assert model.last_work.operations == rows * columns * (columns + 1) // 2
        assert model.last_work.bytes == 8 * rows * columns + 2 * 8 * columns * (columns + 1) // 2


@pytest.mark.parametrize(("mode", "followed"), [("never", 41**2 + 41**2 // 2), ("always", 41 * 42)])
def test_the_work_of_a_prediction_has_what_kept_its_weights(
    mode: str, followed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In numpy a factor follows a row, and solves; a compiled loop does both in one pass."""
    monkeypatch.setattr(CHOICE, "mode", mode)
    model = made(intercept=False)
    model.learn(X[:100], Y[:100])
    model.predict(X[:3])
    solved = 40**3 // 3 + 40**2 // 2
    assert model.last_work.operations == 3 * 40 + solved + 41**2 // 2
    model.learn(X[100:101], Y[100:101])
    model.predict(X[:3])
    assert model.last_work.operations == 3 * 40 + followed


@pytest.mark.parametrize("features", [31, 100])
def test_without_lapack_a_factor_follows_rows_to_the_same_weights_and_statistics(
    features: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(8)
    rows = random.uniform(-1.0, 1.0, (features + 60, features))
    targets = rows @ random.uniform(-0.05, 0.05, features)

    def followed() -> Tikhonov:
        model = Tikhonov(features, solver="cholesky", intercept=True)
        model.learn(rows[:-20], targets[:-20])
        for row in range(len(rows) - 20, len(rows)):
            assert len(model.weights) == features  # a factor follows only if it was used
            model.learn(rows[row : row + 1], targets[row : row + 1])
            model.forget(rows[row - 30 : row - 29], targets[row - 30 : row - 29])
        assert model.factorisations == 1
        return model

    with_lapack, expected = followed(), followed().weights
    monkeypatch.setattr(plain, "_lapack", lambda: None)
    without = followed()
    assert without.digest() == with_lapack.digest()
    np.testing.assert_allclose(without.weights, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rows", [15, 17, 40, 70])
@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_follow_batches_of_any_size(solver: str, rows: int) -> None:
    model = made(solver=solver)
    model.learn(X[:-rows], Y[:-rows])
    assert len(model.weights)  # a factor, which the next rows change
    model.learn(X[-rows:], Y[-rows:])
    scratch = made(solver="refactor")
    scratch.learn(X, Y)
    np.testing.assert_allclose(model.weights, scratch.weights, rtol=1e-8)
