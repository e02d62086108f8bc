"""Floats are put on the grid exactly, or refused with the place, the value and the bound."""

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dealfl.errors import BadInput, OutOfBounds
from dealfl.exact import FixedPoint, require_finite
from tests.statistics.samples import relaxed

BOUNDS = st.floats(2.0**-200, 2.0**200) | st.sampled_from([1.0, 16.0, 17.0, 0.3, 2.0**-200])


def exactly(value: float, exponent: int, fraction_bits: int) -> int:
    """The grid point of a float by exact arithmetic; Python rounds fractions half to even."""
    return round(Fraction(value) * Fraction(2) ** (fraction_bits - exponent))


def _exponent(bound: float) -> int:
    return int(FixedPoint.of(1, bound, 8).exponent[0])


@pytest.mark.parametrize("exponent", [*range(-60, 61), -199, 199])
def test_the_exponent_of_a_power_of_two_and_of_its_neighbours(exponent: int) -> None:
    power = 2.0**exponent
    assert _exponent(power) == exponent
    assert _exponent(math.nextafter(power, math.inf)) == exponent + 1
    assert _exponent(math.nextafter(power, 0.0)) == exponent


@relaxed
@given(bound=BOUNDS)
def test_the_exponent_is_the_smallest_that_reaches_the_bound(bound: float) -> None:
    exponent = _exponent(bound)
    assert Fraction(2) ** (exponent - 1) < Fraction(bound) <= Fraction(2) ** exponent


@relaxed
@given(data=st.data())
def test_grid_points_are_those_of_exact_arithmetic(data: st.DataObject) -> None:
    bound = data.draw(BOUNDS)
    bits = data.draw(st.integers(1, 30))
    drawn = data.draw(st.lists(st.floats(-bound, bound), min_size=1, max_size=6))
    values = [*drawn, bound, -bound, 0.0, -0.0, 5e-324, math.nextafter(bound, 0.0)]
    grid = FixedPoint.of(1, bound, bits)
    points = grid.quantise(np.array(values)[:, None])
    assert points.dtype == np.int64
    assert points[:, 0].tolist() == [exactly(v, _exponent(bound), bits) for v in values]
    assert abs(points).max() <= grid.limits[0] <= 2**bits


@relaxed
@given(point=st.integers(-(2**20), 2**20 - 1))
def test_halves_are_rounded_to_even(point: int) -> None:
    grid = FixedPoint.of(1, 2.0**20, 20)
    even = point if point % 2 == 0 else point + 1
    assert grid.quantise(np.array([[point + 0.5]])).tolist() == [[even]]


def test_values_just_beside_a_half_go_to_the_nearest_point() -> None:
    grid = FixedPoint.of(1, 4.0, 2)
    values = np.array([[0.5], [1.5], [2.5], [-0.5], [-1.5]])
    assert grid.quantise(values)[:, 0].tolist() == [0, 2, 2, 0, -2]
    assert grid.quantise(np.nextafter(values, 0.0))[:, 0].tolist() == [0, 1, 2, 0, -1]
    assert grid.quantise(np.nextafter(values, values * 2))[:, 0].tolist() == [1, 2, 3, -1, -2]


@relaxed
@given(
    offset=st.floats(-1e6, 1e6),
    part=st.floats(-1.0, 1.0),
    bits=st.integers(1, 30),
)
def test_an_offset_is_subtracted_before_the_grid(offset: float, part: float, bits: int) -> None:
    grid = FixedPoint.of(1, 3.0, bits, offset=offset)
    value = offset + part
    assert grid.quantise(np.array([[value]])).tolist() == [[exactly(value - offset, 2, bits)]]


def test_each_column_has_its_own_bound_offset_and_scale() -> None:
    grid = FixedPoint.of(3, [1.0, 16.0, 0.3], 8, offset=[0.0, 100.0, -1.0])
    assert grid.exponent.tolist() == [0, 4, -1]
    assert grid.scale.tolist() == [256.0, 16.0, 512.0]
    assert grid.limits.tolist() == [256, 256, round(0.3 * 512)]
    assert grid.quantise(np.array([[0.5, 104.0, -0.75]])).tolist() == [[128, 64, 128]]


def test_a_shared_grid_is_the_one_of_the_widest_column() -> None:
    grid = FixedPoint.of(3, [1.0, 16.0, 0.3], 8, shared=True)
    assert grid.exponent.tolist() == [4, 4, 4]
    assert grid.quantise(np.array([[0.5, 4.0, 0.25]])).tolist() == [[8, 64, 4]]
    with pytest.raises(OutOfBounds, match=r"row 0, feature 0 is 1\.5, outside \[-1, 1\]"):
        grid.quantise(np.array([[1.5, 4.0, 0.25]]))  # the bounds are still those of the columns


def test_no_columns_are_a_grid_too() -> None:
    for shared in (False, True):
        grid = FixedPoint.of(0, 1.0, 8, shared=shared)
        assert grid.quantise(np.empty((3, 0))).shape == (3, 0)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"bound": 16.0}, {"feature_exponent": 4, "fraction_bits": 8}),
        ({"bound": 15.0}, {"feature_exponent": 4, "fraction_bits": 8}),
        ({"bound": [15.0, 9.0]}, {"feature_exponent": 4, "fraction_bits": 8}),
        ({"bound": [15.0, 3.0]}, {"feature_exponent": [4, 2], "fraction_bits": 8}),
        ({"bound": 1, "offset": -0.0}, {"feature_exponent": 0, "fraction_bits": 8}),
        (
            {"bound": 1, "offset": [0.0, 2.5]},
            {"feature_exponent": 0, "fraction_bits": 8, "offset": [0.0, 2.5]},
        ),
        (
            {"bound": 1, "offset": [2, 2], "what": "target"},
            {"target_exponent": 0, "fraction_bits": 8, "target_offset": 2.0},
        ),
    ],
)
def test_settings_name_what_shapes_the_integers_and_nothing_else(
    settings: dict[str, Any], expected: dict[str, object]
) -> None:
    assert FixedPoint.of(2, fraction_bits=8, **settings).settings() == expected


def test_a_negative_zero_offset_is_written_like_zero() -> None:
    shape = FixedPoint.of(2, 1.0, 8, offset=[-0.0, 1.0]).settings()
    assert repr(shape["offset"]) == "[0.0, 1.0]"


def test_an_unsigned_grid_begins_at_its_offset() -> None:
    grid = FixedPoint.of(1, 8.0, 3, offset=-2.0, signed=False)
    assert grid.quantise(np.array([[-2.0], [0.0], [6.0]]))[:, 0].tolist() == [0, 2, 8]
    for value in (math.nextafter(-2.0, -3.0), 6.0000001):
        with pytest.raises(OutOfBounds, match=re.escape(f"is {value!r}, outside [-2, 6]")):
            grid.quantise(np.array([[value]]))


ROWS = np.array([[0.5, -3.0, 1.0], [0.0, 0.0, 0.0], [-1.0, 16.0, 2.0], [0.25, 1.0, -4.0]])
GRID = FixedPoint.of(3, [1.0, 16.0, 4.0], 10)
SHIFTED = FixedPoint.of(3, [1.0, 16.0, 4.0], 10, offset=[0.5, 1.0, 0.0], signed=False)


def altered(row: int, column: int, value: float) -> Any:
    rows = ROWS.copy()
    rows[row, column] = value
    return rows


def stored(grid: FixedPoint, rows: Any, **options: Any) -> Any:
    """Quantise the non-zeros of a matrix, as for a csr."""
    matrix = sparse.csr_array(rows)
    return grid.quantise_stored(matrix.data, matrix.indices, matrix.indptr, **options)


@pytest.mark.parametrize(
    ("row", "column", "value", "limits"),
    [
        (0, 0, 1.0000001, "[-1, 1]"),
        (2, 1, -16.5, "[-16, 16]"),
        (3, 2, 1e300, "[-4, 4]"),
        (2, 0, -7.0, "[-1, 1]"),
    ],
)
def test_a_value_out_of_bounds_is_named_with_its_place_and_what_would_do(
    row: int, column: int, value: float, limits: str
) -> None:
    rows = altered(row, column, value)
    rest = (
        f"feature {column} is {value!r}, outside {limits}; "
        "declare a larger feature_bound or another offset, or pass clip=True"
    )
    with pytest.raises(OutOfBounds, match=re.escape(f"row {row}, {rest}")):
        GRID.quantise(rows)
    with pytest.raises(OutOfBounds, match=re.escape(f"row {row + 1000}, {rest}")):
        GRID.quantise(rows, 1000)
    with pytest.raises(OutOfBounds, match=re.escape(f"row {row}, {rest}")):
        stored(GRID, rows)


def test_bounds_with_an_offset_are_named_in_units_of_the_data() -> None:
    with pytest.raises(
        OutOfBounds, match=re.escape("row 2, feature 0 is -1.0, outside [0.5, 1.5]")
    ):
        SHIFTED.quantise(np.where(ROWS == -1.0, ROWS, np.array([0.5, 1.0, 0.0])))
    grid = FixedPoint.of(1, 2.0, 8, offset=10.0, what="target")
    with pytest.raises(OutOfBounds, match=re.escape("row 0, target 0 is 7.0, outside [8, 12]")):
        grid.quantise(np.array([[7.0]]))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("clip", [False, True])
def test_what_is_no_finite_number_is_refused_even_when_clipping(value: float, clip: bool) -> None:
    rows = altered(3, 1, value)
    rows[0, 0] = 99.0  # another one out of bounds is not what matters
    message = f"row 3, feature 1 is {value}; it must be a finite number"
    with pytest.raises(BadInput, match=message):
        GRID.quantise(rows, clip=clip)
    with pytest.raises(BadInput, match=message):
        stored(GRID, rows, clip=clip)


def test_clipping_takes_the_nearest_value_within_the_bounds() -> None:
    far = np.array([[-1e300, 17.0, 4.5], [0.3, -16.000001, -5e-324], [9.0, 0.0, -99.0]])
    within = np.clip(far, -GRID.bound, GRID.bound)
    assert GRID.quantise(far, clip=True).tolist() == GRID.quantise(within).tolist()
    assert stored(GRID, far, clip=True).tolist() == stored(GRID, within).tolist()
    low, high = SHIFTED.offset, SHIFTED.offset + SHIFTED.bound
    clipped = SHIFTED.quantise(np.clip(far, low, high))
    assert SHIFTED.quantise(far, clip=True).tolist() == clipped.tolist()


def test_clipping_changes_nothing_within_the_bounds() -> None:
    assert GRID.quantise(ROWS, clip=True).tolist() == GRID.quantise(ROWS).tolist()


@relaxed
@given(data=st.data())
def test_stored_values_have_the_points_of_dense_ones(data: st.DataObject) -> None:
    bounds = [1.0, 16.0, 0.3]
    row = st.tuples(*(st.just(0.0) | st.floats(-bound, bound) for bound in bounds))
    rows = np.array(data.draw(st.lists(row, min_size=1, max_size=6)))
    shared = data.draw(st.booleans())
    grid = FixedPoint.of(3, bounds, data.draw(st.integers(1, 30)), shared=shared)
    assert stored(grid, rows).tolist() == grid.quantise(rows)[rows != 0].tolist()


def test_a_stored_value_is_located_among_empty_rows() -> None:
    rows = np.zeros((9, 3))
    rows[2, 1], rows[6, 0], rows[6, 2] = 1.0, 0.5, 40.0
    with pytest.raises(OutOfBounds, match=r"row 6, feature 2 is 40\.0"):
        stored(GRID, rows)
    rows[6, 2], rows[8, 0] = 4.0, math.nan
    with pytest.raises(BadInput, match="row 8, feature 0 is nan"):
        stored(GRID, rows, clip=True)


@pytest.mark.parametrize("bound", [0.0, -1.0, 2.0**-201, 2.0**201, 5e-324, [1.0, 0.0], [-0.0, 1.0]])
def test_bounds_that_are_no_size_are_refused(bound: Any) -> None:
    with pytest.raises(BadInput, match=r"feature_bound is .*; it must lie between"):
        FixedPoint.of(2, bound, 8)


@pytest.mark.parametrize("bound", [math.nan, math.inf, -math.inf, [1.0, math.nan]])
def test_bounds_and_offsets_must_be_finite(bound: Any) -> None:
    with pytest.raises(BadInput, match=r"target_bound is .*; it must be finite"):
        FixedPoint.of(2, bound, 8, what="target")
    with pytest.raises(BadInput, match=r"offset is .*; it must be finite"):
        FixedPoint.of(2, 1.0, 8, offset=bound)


@pytest.mark.parametrize("bound", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], [], np.ones((2, 1))])
def test_bounds_and_offsets_are_one_number_or_one_per_column(bound: Any) -> None:
    with pytest.raises(
        BadInput, match=r"feature_bound has shape .*; give one number, or 2 numbers"
    ):
        FixedPoint.of(2, bound, 8)
    with pytest.raises(BadInput, match=r"offset has shape .*; give one number, or 2 numbers"):
        FixedPoint.of(2, 1.0, 8, offset=bound)


@pytest.mark.parametrize("bound", ["wide", object(), {"a": 1}, [1.0, [2.0]], 1j])
def test_bounds_and_offsets_must_be_numbers(bound: Any) -> None:
    with pytest.raises(BadInput, match=r"feature_bound is .*; give a number, or one per column"):
        FixedPoint.of(2, bound, 8)
    with pytest.raises(BadInput, match=r"offset is .*; give a number, or one per column"):
        FixedPoint.of(2, 1.0, 8, offset=bound)


def test_the_grid_keeps_its_bounds_when_the_callers_change() -> None:
    bounds, offsets = np.array([1.0, 2.0]), np.array([0.0, 0.5])
    grid = FixedPoint.of(2, bounds, 8, offset=offsets)
    bounds[:], offsets[:] = 99.0, 99.0
    assert grid.bound.tolist() == [1.0, 2.0]
    assert grid.offset.tolist() == [0.0, 0.5]


def test_quantising_leaves_the_values_as_they_were() -> None:
    rows = ROWS * 2
    GRID.quantise(rows, clip=True)
    assert rows.tolist() == (ROWS * 2).tolist()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_first_value_that_is_not_finite_is_named(value: float) -> None:
    require_finite(ROWS)
    rows = altered(2, 1, value)
    rows[3, 0] = math.nan
    with pytest.raises(BadInput, match=f"row 2, feature 1 is {value}; it must be a finite number"):
        require_finite(rows)
    with pytest.raises(BadInput, match=f"row 502, feature 1 is {value}"):
        require_finite(rows, 500)
