import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.features import Bins


def test_each_value_falls_into_the_bin_that_starts_at_or_below_it() -> None:
    quarters = Bins(n_inputs=1, low=0.0, high=4.0, bins=4)
    chosen = quarters.transform(np.array([[0], [0.99], [1], [3], [3.99]])).argmax(axis=1)
    assert chosen.tolist() == [0, 0, 1, 3, 3]


def test_the_end_bins_are_open() -> None:
    quarters = Bins(n_inputs=1, low=0.0, high=4.0, bins=4)
    features = quarters.transform(np.array([[-1e9], [4], [1e9]]))
    assert features.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]]


def test_other_columns_pass_through_in_their_place() -> None:
    halves = Bins(n_inputs=3, low=(0.0, -10.0), high=2.0, bins=2, columns=(2, 0), bound=9.0)
    assert halves.transform(np.array([[1, 7, -5]])).tolist() == [[0, 1, 7, 1, 0]]
    assert halves.feature_bound.tolist() == [1, 1, 9, 1, 1]
    assert halves.n_features == 5


def test_ranges_follow_the_order_in_which_columns_are_named() -> None:
    swapped = Bins(n_inputs=2, low=(0.0, 100.0), high=(10.0, 200.0), bins=2, columns=(1, 0))
    assert swapped.transform(np.array([[160, 4]])).tolist() == [[0, 1, 1, 0]]


@pytest.mark.parametrize(
    ("given_type", "bound", "expected"),
    [
        (np.int64, 1.0, np.int8),
        (np.uint8, 255.0, np.int16),
        (np.int64, 2.0**40, np.int64),
        (np.float32, 1.0, np.float32),
        (np.float64, 1.0, np.float64),
    ],
)
def test_whole_numbers_come_out_in_the_smallest_type(
    given_type: type, bound: float, expected: type
) -> None:
    mixed = Bins(n_inputs=2, low=0.0, high=1.0, columns=(0,), bound=bound)
    assert mixed.transform(np.ones((1, 2), dtype=given_type)).dtype == expected


def test_bins_alone_are_bytes() -> None:
    assert Bins(n_inputs=1, low=0.0, high=1.0).transform(np.ones((1, 1))).dtype == np.uint8


def test_whole_edges_are_exact() -> None:
    hundred = Bins(n_inputs=1, low=0.0, high=100.0, bins=100)
    chosen = hundred.transform(np.arange(100).reshape(-1, 1)).argmax(axis=1)
    assert chosen.tolist() == list(range(100))


@given(st.floats(-1e6, 1e6), st.integers(2, 50))
def test_exactly_one_bin_is_set(value: float, bins: int) -> None:
    features = Bins(n_inputs=1, low=-3.7, high=11.1, bins=bins).transform(np.array([[value]]))
    assert features.sum() == 1
