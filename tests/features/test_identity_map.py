import numpy as np
import pytest
from scipy.sparse import csr_array

from dealfl.errors import OutOfBounds
from dealfl.features import Identity


def test_an_array_is_passed_on_without_a_copy() -> None:
    fractions = np.array([[0.25, -1.0]])
    assert Identity(n_inputs=2, bound=1.0).transform(fractions) is fractions


def test_sparse_rows_become_dense_and_keep_their_type() -> None:
    rows = csr_array(np.array([[0, 3], [0, 0]], dtype=np.int16))
    dense = Identity(n_inputs=2, bound=3.0).transform(rows)
    assert dense.dtype == np.int16
    assert dense.tolist() == [[0, 3], [0, 0]]


def test_each_column_has_its_own_bound() -> None:
    bounded = Identity(n_inputs=2, bound=(1.0, 8.0))
    assert bounded.feature_bound.tolist() == [1.0, 8.0]
    assert bounded.transform(np.array([[-1, -8]])).tolist() == [[-1, -8]]
    with pytest.raises(OutOfBounds, match=r"X\[1, 0\] is -2\.0, outside -1\.0 \.\. 1\.0; declare"):
        bounded.transform(np.array([[0, 0], [-2, -8]]))


def test_the_smallest_integer_is_out_of_bounds_and_does_not_wrap() -> None:
    with pytest.raises(OutOfBounds, match="is -128"):
        Identity(n_inputs=1, bound=127.0).transform(np.array([[-128]], dtype=np.int8))
