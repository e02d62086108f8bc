"""The contract of every feature map."""

import hashlib
import json
import tracemalloc
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, csr_matrix
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import dealfl.features
from dealfl.errors import BadInput, OutOfBounds
from dealfl.features import FeatureMap, base, feature_map
from dealfl.features.relu import dealt_signs

N_INPUTS = 48
DECLARED: dict[str, dict[str, object]] = {
    "identity": {"map": "identity", "bound": 16.0},
    "bins": {"map": "bins", "low": 0, "high": 16, "bins": 5, "columns": [0, 3, 47], "bound": 16},
    "all bins": {"map": "bins", "low": 0, "high": 16, "bins": 3},
    "thermometer": {"map": "thermometer", "low": 0, "high": 16, "levels": 4},
    "relu": {"map": "relu", "width": 20, "seed": 3},
    "relu on a grid": {"map": "relu", "width": 7, "high": [16.0] * 48, "steps": 5, "clip": 9},
    "patches": {"map": "patches", "image": [3, 4, 4], "size": 2, "filters": 5, "seed": 1},
    "far patches": {"map": "patches", "image": [3, 4, 4], "size": 2, "stride": 2, "pool": 1},
}
# sha256 of the features of `examples()`: a change here changes every model ever learned
GOLDEN = {
    "identity": "f127bebdfa0f028fbbf4f6ed68b7074ca1bff7aaf0347fd5e43213df73dffe8d",
    "bins": "5ae282d21b6de8e3b8ac259db693c4f396f144d40f9480203c899814435619ed",
    "all bins": "2f4817860edfec20897df016e2a9253ec4dcc4162652ab86e595f1576b9868a4",
    "thermometer": "209b83e1c9d3eaa8589503164da922030ac0167fc96accf40b65b307c79a0d59",
    "relu": "6e651c812bff9f5dcffb331bfc27a44082e9a9997791b99a020cd825ac24f25d",
    "relu on a grid": "ab39405d2621888b9987d4fc57c172d1ad39a14398274a4416a7ce4e64c1df94",
    "patches": "32f44bff3d8e6c9616f4d2048fc4155673bc0268f6dce3ed05ac6f2dbaed1c7f",
    "far patches": "e8a07afc9aeb1e00dab3c3d84fb50242e6bd75336051475ea01b488872515e0f",
}
every_map = pytest.mark.parametrize("name", DECLARED)


def made(name: str) -> FeatureMap:
    return feature_map(DECLARED[name], N_INPUTS)


def examples(count: int = 9) -> NDArray[np.int64]:
    """Whole numbers 0 .. 16 without a pattern that a filter could miss."""
    return (np.arange(count * N_INPUTS) ** 2 * 7 // 5 % 17).reshape(count, N_INPUTS)


@every_map
def test_features_of_a_seed_never_change(name: str) -> None:
    features = made(name).transform(examples())
    assert hashlib.sha256(features.astype("<i8").tobytes()).hexdigest() == GOLDEN[name]


@every_map
@settings(max_examples=15, deadline=None)
@given(chosen=st.lists(st.integers(0, 8), max_size=12), block_bytes=st.sampled_from([1, 9_999]))
def test_features_of_a_row_depend_on_no_other_row(
    name: str, chosen: list[int], block_bytes: int
) -> None:
    fitted = made(name)
    together = fitted.transform(examples())
    with mock.patch.object(base, "BLOCK_BYTES", block_bytes):
        apart = fitted.transform(examples()[np.array(chosen, dtype=int)])
    np.testing.assert_array_equal(apart, together[np.array(chosen, dtype=int)])


def test_one_thread_and_two_give_the_same_integers() -> None:
    # only a long dot product is split between threads, and only a large one shows it in integers
    long = {"map": "relu", "width": 1, "connections": 65_536, "steps": 2**36, "clip": 2**52}
    wide = feature_map({**long, "high": 2**36}, 100_000)
    added = dealt_signs(seed=0, width=1, n_inputs=100_000, connected=65_536) > 0
    drops = [(np.arange(100_000) + start) ** 3 % 2**34 for start in range(40)]
    with threadpool_limits(1):
        alone = [int(wide.transform(np.where(added, 2**36 - drop, 0))[0, 0]) for drop in drops]
    with threadpool_limits(2):
        shared = [int(wide.transform(np.where(added, 2**36 - drop, 0))[0, 0]) for drop in drops]
    assert min(alone) > 2**50
    assert alone == shared


@every_map
def test_settings_declare_an_equal_map(name: str) -> None:
    first = made(name)
    declared = json.loads(json.dumps(first.settings()))
    second = feature_map(declared, N_INPUTS)
    assert second == first
    assert hash(second) == hash(first)
    assert second.settings() == declared
    assert declared.items() >= DECLARED[name].items()


@every_map
def test_features_are_as_many_and_as_large_as_said(name: str) -> None:
    fitted = made(name)
    features = fitted.transform(examples(200))
    assert features.shape == (200, fitted.n_features)
    assert fitted.feature_bound.shape == (fitted.n_features,)
    assert fitted.feature_bound.dtype == np.float64
    assert (np.abs(features.astype(float)) <= fitted.feature_bound).all()
    assert fitted.feature_bound.min() >= 1


@every_map
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64, np.float16, np.float32, ">f8"])
def test_any_real_type_gives_the_same_features(name: str, dtype: str) -> None:
    features = made(name).transform(examples().astype(dtype))
    np.testing.assert_array_equal(features, made(name).transform(examples()))


@every_map
@pytest.mark.parametrize("sparse", [csr_array, csr_matrix, coo_array])
def test_sparse_rows_give_the_same_dense_features(name: str, sparse: Any) -> None:
    given_rows = sparse(examples())
    features = made(name).transform(given_rows)
    assert type(features) is np.ndarray
    np.testing.assert_array_equal(features, made(name).transform(examples()))
    np.testing.assert_array_equal(given_rows.toarray(), examples())


@every_map
def test_booleans_are_noughts_and_ones(name: str) -> None:
    truths = examples() > 8
    features = made(name).transform(truths)
    assert features.dtype.kind in "iu"
    np.testing.assert_array_equal(features, made(name).transform(truths.astype(int)))


@every_map
def test_arrays_in_any_layout_are_read_and_left_alone(name: str) -> None:
    wide = np.repeat(examples(), 2, axis=1).astype(float)
    wide.flags.writeable = False
    strided = wide[::-1, ::2]
    features = made(name).transform(strided)
    np.testing.assert_array_equal(features, made(name).transform(examples())[::-1])
    np.testing.assert_array_equal(strided, examples()[::-1])


@every_map
def test_no_rows_give_no_rows(name: str) -> None:
    fitted = made(name)
    assert fitted.transform(np.empty((0, N_INPUTS))).shape == (0, fitted.n_features)
    assert fitted.transform(csr_array((0, N_INPUTS))).shape == (0, fitted.n_features)


@every_map
def test_the_output_type_does_not_depend_on_the_values(name: str) -> None:
    fitted = made(name)
    assert fitted.transform(examples() * 0).dtype == fitted.transform(examples()).dtype


@every_map
def test_memory_stays_bounded_for_many_rows(name: str) -> None:
    many = examples(20_000).astype(np.uint8)
    fitted = made(name)
    fitted.transform(many[:1])
    tracemalloc.start()
    features = fitted.transform(many)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes - features.nbytes < 2 * base.BLOCK_BYTES


@every_map
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_a_value_that_is_not_finite_is_refused_by_its_place(
    name: str, value: float, form: Any
) -> None:
    broken = examples().astype(float)
    broken[4, 3] = value
    with (
        mock.patch.object(base, "BLOCK_BYTES", 1),
        pytest.raises(BadInput, match=rf"X\[4, 3\] is {value}"),
    ):
        made(name).transform(form(broken))


@every_map
@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (np.zeros((2, 47)), "X has 47 columns; this map takes 48"),
        (csr_array((2, 49)), "X has 49 columns; this map takes 48"),
        (np.zeros(48), "X has shape"),
        (np.zeros((1, 48, 1)), "X has shape"),
        (np.full((1, 48), "a"), "X has dtype <U1"),
        (np.zeros((1, 48), dtype=complex), "X has dtype complex128"),
        (np.zeros((1, 48), dtype=object), "X has dtype object"),
        (np.zeros((1, 48), dtype="M8[s]"), "X has dtype datetime64"),
        ([[1, 2], [3]], "X is not a table of numbers"),
    ],
)
def test_what_is_no_table_of_real_numbers_is_refused(name: str, broken: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        made(name).transform(broken)


@pytest.mark.parametrize("name", ["identity", "bins", "relu", "relu on a grid"])
def test_a_value_beyond_its_bound_is_refused_by_its_place(name: str) -> None:
    broken = examples()
    broken[4, 5] = 17
    with (
        mock.patch.object(base, "BLOCK_BYTES", 1),
        pytest.raises(OutOfBounds, match=r"X\[4, 5\] is 17\.0, outside \S+ \.\. 16\.0; declare"),
    ):
        made(name).transform(broken)


def test_a_long_double_beyond_float64_is_refused() -> None:
    broken = np.full((1, N_INPUTS), np.finfo(np.longdouble).max)
    with pytest.raises(BadInput, match=r"X\[0, 0\] is inf"):
        made("thermometer").transform(broken)


def test_public_names_are_pinned() -> None:
    assert sorted(dealfl.features.__all__) == [
        "Bins",
        "FeatureMap",
        "Identity",
        "MAPS",
        "Patches",
        "Relu",
        "Thermometer",
        "checked_csr",
        "feature_map",
    ]


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo"])
def test_a_sparse_table_whose_indices_do_not_fit_is_refused(form: str) -> None:
    whole: Any = csr_array(np.ones((3, N_INPUTS)))
    table = whole.asformat(form)
    if form == "coo":
        table.coords = (table.coords[0] + 99, table.coords[1])
    else:
        table.indices = table.indices + 99
    with pytest.raises(BadInput, match="X is not a valid sparse table"):
        feature_map(DECLARED["relu"], N_INPUTS).transform(table)
