import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dealfl.features import Thermometer


def test_low_sets_no_bit_and_high_sets_all() -> None:
    bits = Thermometer(n_inputs=1, low=0.0, high=16.0, levels=16)
    assert bits.transform(np.arange(17).reshape(-1, 1)).sum(axis=1).tolist() == list(range(17))


def test_beyond_the_ends_is_as_at_the_ends() -> None:
    bits = Thermometer(n_inputs=1, low=-1.0, high=1.0, levels=2)
    assert bits.transform(np.array([[-9.0], [9.0]])).tolist() == [[0, 0], [1, 1]]


def test_bits_are_set_one_after_another_column_by_column() -> None:
    bits = Thermometer(n_inputs=2, low=(0.0, 10.0), high=(3.0, 40.0), levels=3)
    assert bits.transform(np.array([[1, 39], [3, 20]])).tolist() == [
        [1, 0, 0, 1, 1, 0],
        [1, 1, 1, 1, 0, 0],
    ]


def test_high_sets_its_bit_although_three_thirds_of_the_range_lie_above_it() -> None:
    assert -3.0 + (-1.4 + 3.0) * 3 / 3 > -1.4
    bits = Thermometer(n_inputs=1, low=-3.0, high=-1.4, levels=3)
    assert bits.transform(np.array([[-1.4]])).tolist() == [[1, 1, 1]]


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_a_larger_value_never_sets_fewer_bits(one: float, other: float) -> None:
    bits = Thermometer(n_inputs=1, low=-7.3, high=20.1, levels=11)
    low, high = bits.transform(np.array([[min(one, other)], [max(one, other)]]))
    assert (low <= high).all()
    assert (np.diff(high.astype(int)) <= 0).all()
