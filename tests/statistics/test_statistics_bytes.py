"""Equal statistics are equal bytes, and bytes give the statistics back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.errors import BadBytes
from dealfl.exact import ArraySpec, Schema, Statistics
from tests.statistics.samples import (
    FAR,
    any_statistics,
    array,
    as_dicts,
    header_of,
    made,
    relaxed,
    written,
)

PREFIX = 8 + 2 + 4
ARRAY_HEAD = 8 + 1 + 1 + 1


def body_bytes(statistics: Statistics) -> int:
    """How many bytes the values and gaps of the arrays take."""
    heads = PREFIX + len(statistics.schema.canonical())
    return len(statistics.to_bytes()) - heads - ARRAY_HEAD * len(statistics.schema.arrays)


def one_array(size: int, pairs: dict[int, int], bits: int = 64) -> Statistics:
    return made(Schema("counter", {}, (ArraySpec("a", size, bits),)), {"a": pairs})


@relaxed
@given(statistics=any_statistics())
def test_bytes_give_the_statistics_back(statistics: Statistics) -> None:
    data = statistics.to_bytes()
    read = Statistics.from_bytes(data)
    assert read == statistics
    assert read.schema == statistics.schema
    assert as_dicts(read) == as_dicts(statistics)
    assert read.to_bytes() == data
    assert read.digest() == statistics.digest()
    assert read + -statistics == Statistics.zero(statistics.schema)


@relaxed
@given(a=any_statistics(), b=st.none() | any_statistics())
def test_bytes_are_equal_exactly_when_schemas_and_values_are(
    a: Statistics, b: Statistics | None
) -> None:
    if b is None:
        settings = dict(reversed(a.schema.settings.items()))
        b = made(Schema(a.schema.learner, settings, a.schema.arrays), as_dicts(a))
    same = a.schema.canonical() == b.schema.canonical() and as_dicts(a) == as_dicts(b)
    assert (a.to_bytes() == b.to_bytes()) is same


def test_the_format_never_changes() -> None:
    arrays = (ArraySpec("sparse", 1000), ArraySpec("dense", 3, 32), ArraySpec("wide", FAR, 96))
    statistics = made(
        Schema("counter", {"b": [1.5], "a": "µ"}, arrays),
        {"sparse": {7: -2, 300: 130}, "dense": {0: 1, 1: -1, 2: 256}, "wide": {FAR - 1: -(2**94)}},
    )
    header = (
        '{"learner":"counter","settings":{"a":"µ","b":[1.5]},"arrays":['
        '{"name":"sparse","size":1000,"bits":64},{"name":"dense","size":3,"bits":32},'
        '{"name":"wide","size":4611686018427387904,"bits":96}]}'
    ).encode()
    assert statistics.to_bytes() == b"".join(
        [
            b"DEALSTAT",
            b"\x01\x00",
            len(header).to_bytes(4, "little"),
            header,
            b"\x02\0\0\0\0\0\0\0\x00\x02\x02",  # two values, sparse, gaps of 2 bytes, values of 2
            b"\x07\x00\x24\x01",  # gaps of 7 and 292
            b"\xfe\xff\x82\x00",  # -2 and 130
            b"\x03\0\0\0\0\0\0\0\x01\x01\x02",  # three values, dense
            b"\x01\x00\xff\xff\x00\x01",
            b"\x01\0\0\0\0\0\0\0\x00\x08\x0c",
            b"\xff\xff\xff\xff\xff\xff\xff\x3f",
            b"\0\0\0\0\0\0\0\0\0\0\0\xc0",
        ]
    )


@pytest.mark.parametrize(
    ("value", "width"),
    [
        (1, 1),
        (-1, 1),
        (127, 1),
        (-128, 1),
        (128, 2),
        (-129, 2),
        (255, 2),
        (-(2**15), 2),
        (2**15, 3),
        (2**63 - 1, 8),
        (-(2**63), 8),
        (2**63, 9),
        (2**95 - 1, 12),
        (-(2**95), 12),
    ],
)
def test_values_take_as_few_bytes_as_the_largest_needs(value: int, width: int) -> None:
    statistics = one_array(FAR, {0: 1, 1: -1, 2: value}, bits=96)
    assert body_bytes(statistics) == 3 * (1 + width)
    assert Statistics.from_bytes(statistics.to_bytes()) == statistics


@pytest.mark.parametrize("bits", [64, 96])
@pytest.mark.parametrize("value", [1, -1])
def test_a_single_value_of_one_byte_takes_one(value: int, bits: int) -> None:
    assert body_bytes(one_array(FAR, {0: value}, bits)) == 1 + 1


@pytest.mark.parametrize(
    ("index", "width"),
    [(0, 1), (255, 1), (256, 2), (2**16, 3), (2**32 - 1, 4), (2**32, 5), (FAR - 1, 8)],
)
def test_gaps_take_as_few_bytes_as_the_largest_needs(index: int, width: int) -> None:
    statistics = one_array(FAR, {index: 1})
    assert body_bytes(statistics) == width + 1
    assert Statistics.from_bytes(statistics.to_bytes()) == statistics


@pytest.mark.parametrize("held", [0, 1, 49, 50, 51, 99, 100])
def test_the_smaller_of_the_two_layouts_is_taken(held: int) -> None:
    statistics = one_array(100, dict.fromkeys(range(held), 1))
    assert body_bytes(statistics) == min(2 * held, 100)
    assert Statistics.from_bytes(statistics.to_bytes()) == statistics


def test_of_layouts_of_equal_size_the_sparse_one_is_taken() -> None:
    assert one_array(2, {0: 1}).to_bytes()[-13:] == b"\1" + bytes(7) + b"\0\1\1" + b"\0\1"


def test_statistics_without_arrays_or_without_room_are_written_too() -> None:
    for schema in (Schema("", {}, ()), Schema("counter", {}, (ArraySpec("", 0),))):
        zero = Statistics.zero(schema)
        assert Statistics.from_bytes(zero.to_bytes(), max_bytes=0) == zero


@pytest.mark.parametrize("bits", [64, 96])
def test_max_bytes_is_the_memory_that_decoded_arrays_may_take(bits: int) -> None:
    statistics = one_array(FAR, dict.fromkeys(range(1000), 1), bits)
    data = statistics.to_bytes()
    assert Statistics.from_bytes(data, max_bytes=24 * 1000) == statistics
    with pytest.raises(BadBytes, match="raise max_bytes to allow"):
        Statistics.from_bytes(data, max_bytes=statistics.nbytes - 1)


def test_by_default_arrays_of_256_mib_are_read_and_larger_ones_are_not() -> None:
    for cells, problem in ((1 << 24, "truncated"), ((1 << 24) + 1, "raise max_bytes")):
        data = written(header_of(("a", cells, 64)), array(1, 1, 1, 1, b"\1"))
        with pytest.raises(BadBytes, match=problem):
            Statistics.from_bytes(data)


def test_max_bytes_counts_all_arrays_together() -> None:
    schema = Schema("counter", {}, tuple(ArraySpec(name, 9, 96) for name in "abc"))
    statistics = made(schema, {name: {0: 1, 4: 2} for name in "abc"})
    data = statistics.to_bytes()
    assert Statistics.from_bytes(data, max_bytes=statistics.nbytes) == statistics
    with pytest.raises(BadBytes, match="raise max_bytes to allow more"):
        Statistics.from_bytes(data, max_bytes=statistics.nbytes - 1)


CANONICAL = written(header_of(("a", 8, 64)), array(1, 0, 1, 1, b"\3\5"))
ONLY_SPARSE = header_of(("a", 8, 64))


SECOND_WAYS = {
    "dense where sparse is smaller": written(ONLY_SPARSE, array(1, 1, 1, 1, b"\0\0\0\5\0\0\0\0")),
    "sparse where dense is smaller": written(
        header_of(("a", 2, 64)), array(2, 0, 1, 1, b"\0\0\5\6")
    ),
    "values too wide": written(ONLY_SPARSE, array(1, 0, 1, 2, b"\3\5\0")),
    "negative values too wide": written(ONLY_SPARSE, array(1, 0, 1, 2, b"\3\xff\xff")),
    "gaps too wide": written(ONLY_SPARSE, array(1, 0, 2, 1, b"\3\0\5")),
    "gaps of nothing too wide": written(ONLY_SPARSE, array(0, 0, 2, 1)),
    "values of nothing too wide": written(ONLY_SPARSE, array(0, 0, 1, 2)),
    "zeros stored densely": written(ONLY_SPARSE, array(0, 1, 1, 1, bytes(8))),
    "a wrong count": written(header_of(("a", 2, 64)), array(1, 1, 1, 1, b"\5\6")),
    "a gap width of no use": written(header_of(("a", 2, 64)), array(2, 1, 2, 1, b"\5\6")),
    "a header with spaces": written(ONLY_SPARSE.replace(":", ": "), array(0, 0, 1, 1)),
    "a header in another order": written('{"arrays":[],"learner":"c","settings":{}}'),
    "settings in another order": written('{"learner":"c","settings":{"b":1,"a":2},"arrays":[]}'),
    "a setting given twice": written('{"learner":"c","settings":{"a":1,"a":1},"arrays":[]}'),
    "a name given twice": written('{"learner":"x","learner":"c","settings":{},"arrays":[]}'),
    "an escape of no use": written('{"learner":"\\u0063","settings":{},"arrays":[]}'),
    "a number in another way": written('{"learner":"c","settings":{"a":1.50},"arrays":[]}'),
    "a default left out": written(ONLY_SPARSE.replace(',"bits":64', ""), array(0, 0, 1, 1)),
}


@pytest.mark.parametrize("data", SECOND_WAYS.values(), ids=SECOND_WAYS)
def test_there_is_no_second_way_to_write_statistics(data: bytes) -> None:
    assert Statistics.from_bytes(CANONICAL).to_bytes() == CANONICAL
    with pytest.raises(BadBytes, match="not in canonical form"):
        Statistics.from_bytes(data)
