"""At the limits: widths of sums, bounds and clipping, systems without full rank."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dealfl.errors import BadInput, Incompatible, NotLearned
from dealfl.exact import CHOICE
from dealfl.learners import (
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    RowLearner,
    Tikhonov,
    TikhonovClassifier,
)
from dealfl.learners.ridge.weights import SOLVERS

Classed = Callable[..., RowLearner]
CLASSIFIERS: list[Classed] = [TikhonovClassifier, NaiveBayes, Neighbors]


# -- sums ---------------------------------------------------------------------------------------


def moments(rows: int, bits: int, point: int) -> dict[int, int]:
    """Return the moments of equal rows whose feature and target are `point` grid points."""
    model = Tikhonov(1, fraction_bits=bits)
    value = point / 2**bits
    model.learn(np.full((rows, 1), value), np.full(rows, value))
    return model.statistics["moments"].to_dict()


def expected(rows: int, point: int) -> dict[int, int]:
    total, square = rows * point, rows * point * point
    return {0: rows, 1: total, 2: square, 3: total, 4: square, 5: square}


@pytest.mark.parametrize("bits", [20, 21, 22])
def test_sums_of_odd_squares_are_exact_beyond_the_integers_of_floats(bits: int) -> None:
    rows = 2 ** (54 - 2 * bits) - 1  # an odd sum of almost 2^54: no float has it
    assert moments(rows, bits, 2**bits - 1) == expected(rows, 2**bits - 1)


@pytest.mark.parametrize("rows", [3, 4, 5, 7, 8, 9, 15, 16, 17])
@pytest.mark.parametrize("point", [2**30, -(2**30), 2**30 - 1])
def test_few_rows_at_the_bound_do_not_wrap(rows: int, point: int) -> None:
    assert moments(rows, 30, point) == expected(rows, point)


def test_forgetting_a_row_whose_sums_would_be_too_large_for_their_squares_is_refused() -> None:
    model = Tikhonov(1, feature_bound=2.0)
    model.learn([[1.0], [1.0]], [0.0, 0.0])
    with pytest.raises(NotLearned, match="column 1 has the sum"):
        model.forget([[0.0]], [0.0])  # nothing else shows it: squares, counts and parity fit
    model.forget([[1.0]], [0.0])


@pytest.mark.parametrize(("features", "bits"), [(16_384, 24), (8192, 24), (1 << 15, 23)])
def test_distances_that_do_not_fit_are_refused_when_a_learner_is_made(
    features: int, bits: int
) -> None:
    few: dict[str, Any] = {"tables": 1, "bits": 1, "vote_bits": 1}
    with pytest.raises(BadInput, match=f"fraction_bits is {bits}, .*: give at most {bits - 1}"):
        Neighbors(features, [0, 1], fraction_bits=bits, **few)
    model = Neighbors(features, [0, 1], fraction_bits=bits - 1, k=1, **few)
    corners = np.ones((2, features)) * [[-1.0], [1.0]]
    model.learn(corners, [0, 1])
    ((ids, distances),) = model.nearest(corners[:1], k=2)
    assert ids.tolist() == [0, 1]
    assert distances.tolist() == [0.0, pytest.approx(2.0 * features**0.5)]


# -- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", CLASSIFIERS)
def test_what_clipping_does_is_in_the_schema(make: Classed) -> None:
    def made(bound: float, clip: bool) -> RowLearner:
        return make(1, [0, 1], feature_bound=bound, clip=clip)

    narrow, wide = made(3.0, True), made(4.0, True)
    clipped = narrow.learn([[9.0]], [0])
    wide.learn([[9.0]], [0])
    assert {"clip": True, "feature_bound": 3.0}.items() <= narrow.schema.settings.items()
    assert "feature_bound" not in wide.schema.settings  # it is what the exponent says
    with pytest.raises(Incompatible, match=r"have clip = not set, but this model has clip = True"):
        wide.merge(made(4.0, False).learn([[1.0]], [0]))
    with pytest.raises(Incompatible, match=r"have feature_bound = 3.0, but this model has "):
        wide.merge(clipped)
    only_refuse = made(3.0, False).schema.same(made(4.0, False).schema)
    assert only_refuse == (make is not Neighbors)  # its directions depend on the bounds
    for model in (narrow, wide):
        rebuilt = type(model).from_schema(model.schema)
        assert rebuilt.learn([[9.0]], [0]) == model.statistics


def test_what_clipping_does_to_targets_is_in_the_schema() -> None:
    model = Tikhonov(1, target_bound=3.0, clip=True)
    assert {"clip": True, "target_bound": 3.0}.items() <= model.schema.settings.items()
    assert Tikhonov.from_schema(model.schema).settings == model.settings


# -- rank ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("columns", [3, 40])
def test_a_system_without_full_rank_is_solved_by_the_smallest_weights(
    solver: str, columns: int
) -> None:
    draw = np.random.default_rng(columns)
    X = np.round(draw.uniform(-1, 1, (columns + 2, columns)), 3)
    y = np.round(draw.uniform(-1, 1, columns + 2), 3)
    model = Tikhonov(columns, penalty=0.0, solver=solver)
    model.learn(X, y)
    for gone in range(columns + 2):
        oracle = np.linalg.lstsq(X[gone:], y[gone:], rcond=None)[0]
        assert np.allclose(model.weights, oracle, rtol=1e-3, atol=1e-4)
        model.forget(X[gone : gone + 1], y[gone : gone + 1])
    assert model.statistics.is_zero
    assert not model.weights.any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_equal_columns_share_their_weight(solver: str) -> None:
    model = Tikhonov(3, penalty=0.0, solver=solver)
    model.learn([[0.5, 0.5, 0.0], [0.3, 0.3, 0.0], [0.7, 0.7, 0.0]], [0.5, 0.3, 0.7])
    assert model.weights.tolist() == pytest.approx([0.5, 0.5, 0.0])


# -- many items ---------------------------------------------------------------------------------


def test_many_items_are_forgotten_and_found_like_few() -> None:
    histories = [[0, 1, 2], [1, 2, 3], [2, 3], [0, 3], [1, 2]]
    far = 2**23 - 4
    few, many = PersonalizedPageRank(4), PersonalizedPageRank(2**23)
    for model, first in ((few, 0), (many, far)):
        model.learn([[first + item for item in history] for history in histories])
        with pytest.raises(NotLearned, match="but in more with another item"):
            model.forget([[first + 2]] * 3)
        model.forget([[first, first + 3]])
        with pytest.raises(NotLearned):
            model.forget([[first, first + 3]])
    for item in range(4):
        assert (many.similar(far + item)[0] - far).tolist() == few.similar(item)[0].tolist()
        assert many.similar(far + item)[1].tolist() == few.similar(item)[1].tolist()
    many.merge(many.statistics)
    assert many.similar(far)[1].tolist() == few.similar(0)[1].tolist()


@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("solver", ["auto", "qr", "cholesky"])
def test_offsets_move_what_is_learned_and_nothing_else(
    solver: str, mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if mode == "always":
        pytest.importorskip("numba")
    monkeypatch.setattr(CHOICE, "mode", mode)
    far = np.array([1e9, -5e6, 0.0])
    rows = np.random.default_rng(0).random((60, 3)) + far
    y = (rows - far) @ [1.0, 2.0, 3.0] + 1e9
    make = partial(Tikhonov, 3, feature_bound=4.0, target_bound=16.0, solver=solver, intercept=True)
    model, plain = make(offset=far, target_offset=1e9), make()
    for one, X, t in ((model, rows, y), (plain, rows - far, y - 1e9)):
        one.learn(X, t)
        assert one.weights.shape == (3,)
        one.forget(X[:1], t[:1])
        one.learn(sparse.csr_array(X[:4]), t[:4])
        one.update((X[4:6], t[4:6]), (X[20:23], t[20:23]))
        one.update_records(one.records_of(X[:2], t[:2]), ())
        one.check()
    assert model.statistics["moments"].to_dict() == plain.statistics["moments"].to_dict()
    assert model.weights == pytest.approx(plain.weights, rel=1e-9)
    assert model.predict(rows) - 1e9 == pytest.approx(plain.predict(rows - far), abs=1e-5)
    assert model.score(rows, y) > 0.8
    X, t = model.rows_of(model.records_of(rows[:2], y[:2]))
    assert (X - far).tolist() == [pytest.approx(row, abs=1e-6) for row in rows[:2] - far]
    assert t - 1e9 == pytest.approx(y[:2] - 1e9, abs=1e-6)
    with pytest.raises(Incompatible, match="offset"):
        model.merge(plain.statistics)
    model.save(tmp_path / "model")
    for copy in (Tikhonov.load(tmp_path / "model"), Tikhonov.from_schema(model.schema)):
        assert copy.schema == model.schema


def test_a_classifier_with_an_offset_forgets_all() -> None:
    rows = np.random.default_rng(0).random((60, 1)) + 1e9
    labels = np.where(rows[:, 0] > 1e9 + 0.5, "late", "early")
    model = TikhonovClassifier(1, ["early", "late"], offset=1e9)
    model.learn(rows, labels)
    assert model.score(rows, labels) > 0.9
    model.forget(rows, labels)
    assert model.statistics.is_zero
