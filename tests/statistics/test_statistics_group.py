"""Statistics form a group, whatever they are made of."""

import re
import weakref
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dealfl.errors import Incompatible, OutOfBounds
from dealfl.exact import ArraySpec, Deferred, Schema, Statistics
from tests.statistics.samples import SCHEMA, any_statistics, as_dicts, made, relaxed, statistics_of

ZERO = Statistics.zero(SCHEMA)
some = statistics_of(SCHEMA)


@relaxed
@given(a=some, b=some, c=some)
def test_sums_do_not_depend_on_grouping_or_order(
    a: Statistics, b: Statistics, c: Statistics
) -> None:
    total = a + b + c
    for other in (a + (b + c), c + b + a, b + (c + a)):
        assert other == total
        assert other.digest() == total.digest()
        assert other.to_bytes() == total.to_bytes()


@relaxed
@given(a=some, b=some)
def test_forgetting_all_leaves_no_trace(a: Statistics, b: Statistics) -> None:
    for nothing in (a - a, -a + a, a + b - b - a):
        assert nothing == ZERO
        assert nothing.is_zero
        assert nothing.nbytes == 0
        assert nothing.to_bytes() == ZERO.to_bytes()
        assert nothing.digest() == ZERO.digest()


@relaxed
@given(a=some, b=some)
def test_zero_and_negation_are_those_of_a_group(a: Statistics, b: Statistics) -> None:
    assert a + ZERO == ZERO + a == a
    assert ZERO - (ZERO - a) == a
    assert -(a - b) == b - a
    assert a - b == a + -b


@relaxed
@given(a=some, b=some)
def test_sums_are_those_of_python(a: Statistics, b: Statistics) -> None:
    ours, theirs = as_dicts(a), as_dicts(b)
    expected = made(
        SCHEMA,
        {
            name: {
                index: ours[name].get(index, 0) + theirs[name].get(index, 0)
                for index in ours[name] | theirs[name]
            }
            for name in ours
        },
    )
    assert a + b == expected
    assert (as_dicts(a), as_dicts(b)) == (ours, theirs), "an operand was changed"


@relaxed
@given(a=any_statistics(), b=st.none() | any_statistics())
def test_statistics_are_equal_exactly_when_settings_and_values_are(
    a: Statistics, b: Statistics | None
) -> None:
    b = made(a.schema, as_dicts(a)) if b is None else b
    same_settings = a.schema.canonical() == b.schema.canonical()
    assume(same_settings or a.schema != b.schema)  # 1 and 1.0 are equal only to Python
    equal = same_settings and as_dicts(a) == as_dicts(b)
    assert (a == b) is equal
    assert (a != b) is not equal


def test_statistics_equal_nothing_else() -> None:
    assert ZERO != 0
    assert (ZERO == 0) is False
    assert as_dicts(ZERO) != ZERO
    with pytest.raises(TypeError, match="unhashable"):
        hash(ZERO)


def test_statistics_give_their_arrays_by_name() -> None:
    statistics = made(SCHEMA, {"few": {1: 2}, "wide": {0: 2**90}})
    assert list(statistics) == ["few", "many", "wide"]
    assert statistics["wide"].to_dict() == {0: 2**90}
    assert [statistics[name].values.wide for name in statistics] == [False, False, True]


def test_repr_names_the_learner_and_what_is_held() -> None:
    statistics = made(SCHEMA, {"few": {1: 2}, "many": {0: 1, 19_999: -1}})
    assert repr(statistics) == "<Statistics of counter, non-zeros in few: 1, many: 2, wide: 0>"


def test_nbytes_counts_indices_and_values_of_non_zeros() -> None:
    assert ZERO.nbytes == 0
    statistics = made(SCHEMA, {"few": {1: 2, 2: 0}, "many": {0: 1, 19_999: -1}, "wide": {2: 5}})
    assert statistics.nbytes == 3 * 16 + 24


@pytest.mark.parametrize("name", ["few", "many", "wide"])
def test_statistics_with_one_value_anywhere_are_not_zero(name: str) -> None:
    assert not made(SCHEMA, {name: {2: -1}}).is_zero
    assert made(SCHEMA, {name: {2: 0}}).is_zero


def test_a_sum_beyond_64_bits_is_refused_and_changes_neither_operand() -> None:
    a = made(SCHEMA, {"many": {0: 1, 7: 2**63 - 1}})
    b = made(SCHEMA, {"many": {7: 1}})
    with pytest.raises(OutOfBounds, match="does not fit"):
        a + b
    assert as_dicts(a)["many"] == {0: 1, 7: 2**63 - 1}
    assert as_dicts(b)["many"] == {7: 1}


COUNTS = (ArraySpec("counts", 9),)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            Schema("sorter", {"bits": 8}, COUNTS),
            "learner sorter cannot be used by learner counter",
        ),
        (
            Schema("counter", {"bits": 9}, COUNTS),
            "have bits = 9, but this model has bits = 8; both must come from the same job",
        ),
        (Schema("counter", {}, COUNTS), "have bits = not set, but this model has bits = 8"),
        (
            Schema("counter", {"bits": 8, "a": "x"}, COUNTS),
            "have a = 'x', but this model has a = not set",
        ),
        (
            Schema("counter", {"bits": 8, "z": [1]}, COUNTS),
            "have z = [1], but this model has z = not set",
        ),
        (
            Schema("counter", {"bits": 8}, (ArraySpec("other", 9),)),
            "have arrays (ArraySpec(",
        ),
        (Schema("counter", {"bits": 8}, (ArraySpec("counts", 8),)), "size=8"),
        (Schema("counter", {"bits": 8}, (ArraySpec("counts", 9, 96),)), "bits=96"),
        (Schema("counter", {"bits": 8}, (*COUNTS, ArraySpec("more", 1))), "name='more'"),
    ],
)
def test_statistics_of_other_settings_are_refused_with_the_difference_named(
    other: Schema, message: str
) -> None:
    ours = Statistics.zero(Schema("counter", {"bits": 8}, COUNTS))
    theirs = Statistics.zero(other)
    assert ours != theirs
    with pytest.raises(Incompatible, match=re.escape(message)):
        ours + theirs
    with pytest.raises(Incompatible, match=re.escape(message)):
        ours - theirs


def test_the_order_of_settings_does_not_matter() -> None:
    one = Statistics.zero(Schema("counter", {"a": 1, "b": [2, 3]}, COUNTS))
    two = Statistics.zero(Schema("counter", {"b": [2, 3], "a": 1}, COUNTS))
    assert one + two == one
    assert one.digest() == two.digest()
    assert one.to_bytes() == two.to_bytes()


def test_arrays_that_are_computed_release_what_they_were_computed_from() -> None:
    rows = np.zeros(3)
    arrays = Deferred(SCHEMA, partial(lambda _: ZERO.arrays, rows))
    kept = weakref.ref(rows)
    del rows
    assert kept() is not None
    assert Statistics(SCHEMA, arrays).is_zero
    assert kept() is None
    assert Statistics(SCHEMA, arrays).is_zero
