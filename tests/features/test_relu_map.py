import hashlib
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.linear_model import RidgeClassifier  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]

from dealfl.errors import BadInput
from dealfl.features import Relu
from dealfl.features.relu import dealt_signs


def by_hand(relu: Relu, grid: Any) -> Any:
    """The features of whole numbers on the grid, in integers and one at a time."""
    connected = min(relu.connections, relu.n_inputs)
    signs = dealt_signs(relu.seed, relu.width, relu.n_inputs, connected).tolist()
    bias = [int(b) for b in relu.biases]
    return [
        [
            min(max(sum(w * g for w, g in zip(ws, row, strict=True)) + b, 0), relu.clip)
            for ws, b in zip(signs, bias, strict=True)
        ]
        for row in grid
    ]


def test_one_input_gives_its_height_above_or_below_the_bias() -> None:
    relu = Relu(n_inputs=1, width=6, bias=0)
    signs = dealt_signs(0, 6, 1, 1)[:, 0]
    assert set(signs.tolist()) == {-1, 1}
    assert relu.transform(np.array([[5]])).tolist() == [(5 * (signs > 0)).tolist()]


def test_features_are_those_of_a_plain_loop() -> None:
    grid = np.arange(3 * 20).reshape(3, 20) ** 2 % 17
    relu = Relu(n_inputs=20, width=30, connections=7, clip=25, seed=5)
    features = relu.transform(grid)
    assert features.tolist() == by_hand(relu, grid.tolist())
    assert features.min() == 0
    assert features.max() == 25


def test_large_grids_are_as_exact_as_small_ones() -> None:
    steps = 2**46 + 1
    grid = np.array([[0, steps, 3], [steps, 1, steps - 1]])
    relu = Relu(n_inputs=3, width=9, high=float(steps), steps=steps, clip=2**62, bias=1)
    assert relu.transform(grid).tolist() == by_hand(relu, grid.tolist())
    assert relu.transform(grid).dtype == np.uint64


def test_grids_beyond_float32_are_as_exact_as_small_ones() -> None:
    steps = 2**24 - 1
    grid = np.array([[steps, steps - 2, 1, 3], [5, steps, steps, 2]])
    relu = Relu(n_inputs=4, width=50, high=float(steps), steps=steps, clip=2**40, bias=1)
    assert relu.transform(grid).tolist() == by_hand(relu, grid.tolist())


@pytest.mark.parametrize(("steps", "fits"), [(2**52, True), (2**53 - 1, True), (2**53, False)])
def test_settings_whose_sums_are_not_exact_are_refused(steps: int, fits: bool) -> None:
    if fits:
        Relu(n_inputs=1, steps=steps, bias=0)
    else:
        with pytest.raises(BadInput, match=r"steps is \d+; connections · steps \+ bias must be"):
            Relu(n_inputs=1, steps=steps, bias=0)


def test_inputs_are_put_on_the_nearest_step_of_the_grid() -> None:
    fine = Relu(n_inputs=2, width=40, low=(-1.0, 0.0), high=(1.0, 50.0), steps=10)
    steps = Relu(n_inputs=2, width=40, high=10.0, steps=10)
    np.testing.assert_array_equal(
        fine.transform(np.array([[0.31, 17.0], [-0.5, 12.5], [1.0, 4.0]])),
        steps.transform(np.array([[7, 3], [2, 2], [10, 1]])),
    )


def test_each_feature_adds_and_subtracts_as_many_distinct_inputs() -> None:
    signs = dealt_signs(seed=2, width=100, n_inputs=37, connected=8)
    assert (np.sum(signs == 1, axis=1) == 4).all()
    assert (np.sum(signs == -1, axis=1) == 4).all()


def test_every_input_is_used_equally_often() -> None:
    signs = dealt_signs(seed=0, width=256, n_inputs=64, connected=16)
    assert (np.abs(signs).sum(axis=0) == 64).all()


def test_a_wider_map_begins_with_the_narrower_one() -> None:
    digits = load_digits().data[:20]
    wide, narrow = Relu(n_inputs=64, width=99), Relu(n_inputs=64, width=50)
    np.testing.assert_array_equal(wide.transform(digits)[:, :50], narrow.transform(digits))


def test_the_bound_is_reached_and_decides_the_type() -> None:
    relu = Relu(n_inputs=2, width=64, bias=3, seed=1)
    assert relu.feature_bound.tolist() == [19.0] * 64
    assert relu.transform(np.array([[16, 0], [0, 16]])).max() == 19
    assert Relu(n_inputs=64).transform(np.zeros((1, 64))).dtype == np.uint8
    assert Relu(n_inputs=64, steps=99, clip=2**14).transform(np.zeros((1, 64))).dtype == np.uint16


def test_the_features_of_the_default_job_never_change() -> None:
    features = Relu(n_inputs=64).transform(load_digits().data)
    digest = hashlib.sha256(features.astype("<i8").tobytes()).hexdigest()
    assert digest == "3b54df271c69b7e86080770696a16199b051e9e04fdfcee2e5af4d2507fc09f4"


def test_256_features_make_a_ridge_read_digits() -> None:
    digits, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        digits, labels, test_size=400, random_state=0, stratify=labels
    )
    scores = []
    for seed in range(4):
        relu = Relu(n_inputs=64, seed=seed)
        ridge = RidgeClassifier(alpha=0.1).fit(relu.transform(train).astype(float), train_labels)
        scores.append(ridge.score(relu.transform(test).astype(float), test_labels))
    assert np.mean(scores) >= 0.97
    assert scores[0] >= 0.97
