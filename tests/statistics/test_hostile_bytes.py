"""No bytes do more harm than `BadBytes`: no other error, no memory, no second way to say it."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.errors import BadBytes, BadInput
from dealfl.exact import CHOICE, MAX_ARRAYS, MAX_HEADER_BYTES, ArraySpec, Schema, Statistics
from tests.statistics.samples import FAR, array, header_of, made, relaxed, written

SAMPLE = made(
    Schema("c", {"b": 1.5}, (ArraySpec("d", 4, 32), ArraySpec("s", 70_000), ArraySpec("w", 9, 96))),
    {"d": {0: 1, 1: -2, 2: 300, 3: 5}, "s": {7: -1, 69_999: 2}, "w": {0: 2**90, 8: -(2**94)}},
)
DATA = SAMPLE.to_bytes()
HEADER = SAMPLE.schema.canonical()
NO_ARRAYS = '{"learner":"c","settings":{},"arrays":[]}'


HEADS = [array(4, 1, 1, 2), array(2, 0, 3, 1), array(2, 0, 1, 12)]  # of the arrays of the sample


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit, f"{peak} bytes were allocated"


def read_or_refused(data: bytes) -> bool:
    """Whether `data` are read; then they are the only way to write what was read."""
    try:
        statistics = Statistics.from_bytes(data)
    except BadInput:
        return False
    assert statistics.to_bytes() == data
    return True


def test_every_truncation_is_refused() -> None:
    for length in range(len(DATA)):
        with pytest.raises(BadBytes):
            Statistics.from_bytes(DATA[:length])


@pytest.mark.parametrize("extra", [b"\0", b"DEALSTAT", DATA])
def test_trailing_bytes_are_refused(extra: bytes) -> None:
    with pytest.raises(BadBytes, match=f"{len(extra)} extra bytes follow the statistics"):
        Statistics.from_bytes(DATA + extra)


def changed(place: int, change: int) -> bytes:
    data = bytearray(DATA)
    data[place] ^= change
    return bytes(data)


def test_every_change_of_a_bit_is_refused_or_means_something_else() -> None:
    with memory_below(1_000_000):
        read = [
            read_or_refused(changed(place, change))
            for place in range(len(DATA))
            for change in (1, 2, 4, 8, 16, 32, 64, 128, 255)
        ]
    assert sum(read) > 100  # other values and other settings are statistics, too


def test_every_other_byte_in_the_head_of_an_array_is_refused() -> None:
    starts = [DATA.index(head) for head in HEADS]
    for place in (start + offset for start in starts for offset in range(11)):
        for change in range(1, 256):
            assert not read_or_refused(changed(place, change)), (place, change)


@relaxed
@given(data=st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    for start in (b"", b"DEALSTAT", b"DEALSTAT\1\0", written(HEADER), written(NO_ARRAYS)):
        if start + data != written(NO_ARRAYS):
            assert not read_or_refused(start + data)


@relaxed
@given(data=st.data())
def test_damaged_statistics_are_refused_or_mean_something_else(data: st.DataObject) -> None:
    damaged = bytearray(DATA)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(damaged)))
        stop = min(len(damaged), start + data.draw(st.integers(0, 12)))
        damaged[start:stop] = data.draw(st.binary(max_size=12) | st.just(bytes(damaged[:start])))
    read_or_refused(bytes(damaged))


@relaxed
@given(body=st.binary(max_size=60), count=st.integers(0, 9) | st.integers(0, 2**64 - 1))
def test_random_arrays_are_refused_or_canonical(body: bytes, count: int) -> None:
    for bits in (32, 64, 96):
        for size in (3, 300, FAR):
            header = header_of(("a", size, bits))
            for layout in (0, 1):
                for width in (1, bits // 8):
                    read_or_refused(written(header, array(count, layout, 1, width, body)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the prefix needs 14 bytes, 0 are left"),
        (b"DEALFILE" + DATA[8:], "not statistics: the bytes start with b'DEALFILE'"),
        (
            DATA[:8] + b"\x02\x00" + DATA[10:],
            "have format 2; this dealfl reads format 1",
        ),
        (DATA[:8] + b"\x00\x00" + DATA[10:], "statistics have format 0"),
        (DATA[:8] + b"\x00\x01" + DATA[10:], "statistics have format 256"),
        (written(NO_ARRAYS, length=10**6), "the header needs 1000000 bytes, 41 are left"),
        (written(NO_ARRAYS, length=2**32 - 1), f"the limit is {MAX_HEADER_BYTES}"),
        (written(NO_ARRAYS, length=MAX_HEADER_BYTES + 1), f"the limit is {MAX_HEADER_BYTES}"),
    ],
)
def test_a_bad_prefix_is_refused(data: bytes, message: str) -> None:
    with memory_below(50_000), pytest.raises(BadBytes, match=message):
        Statistics.from_bytes(data)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "null",
        "[]",
        "{}",
        "nonsense",
        NO_ARRAYS + NO_ARRAYS,
        NO_ARRAYS.replace("}", ',"more":1}', 1) + "}",
        '{"learner":"c","settings":{},"arrays":[],"more":1}',
        '{"learner":"c","settings":{},"arrays":[{"name":"a","size":1,"bits":64,"more":1}]}',
        '{"learner":"c","settings":{},"arrays":[{"name":"a"}]}',
        '{"learner":"c","settings":{},"arrays":[["a",1,64]]}',
        '{"learner":"c","settings":{},"arrays":[{"name":"a","size":1.5,"bits":64}]}',
        '{"learner":"c","settings":{},"arrays":[{"name":"a","size":"1","bits":64}]}',
        '{"learner":"c","settings":{},"arrays":[{"name":1,"size":1,"bits":64}]}',
        '{"learner":"c","settings":[],"arrays":[]}',
        '{"learner":7,"settings":{},"arrays":[]}',
        '{"learner":"c","settings":{"a":NaN},"arrays":[]}',
        '{"learner":"c","settings":{"a":1e999},"arrays":[]}',
        '{"learner":"c","settings":{"a":' + "9" * 5000 + '},"arrays":[]}',
        '{"learner":"c","settings":{"a":"\\ud800"},"arrays":[]}',
        b'{"learner":"\xff","settings":{},"arrays":[]}',
        b'{"learner":"\xed\xa0\x80","settings":{},"arrays":[]}',
        NO_ARRAYS.encode("utf-16"),
        b"\x80\x04\x95",
    ],
)
def test_a_header_that_is_no_schema_is_refused(header: str | bytes) -> None:
    with pytest.raises(BadBytes, match="header of the statistics cannot be read"):
        Statistics.from_bytes(written(header))


@pytest.mark.parametrize("depth", [2_000, 100_000])
@pytest.mark.parametrize("ends", [("[", "]"), ('{"a":', "}")])
def test_a_deeply_nested_header_is_refused(depth: int, ends: tuple[str, str]) -> None:
    nested = ends[0] * depth + "1" + ends[1] * depth
    data = written('{"learner":"c","settings":{"a":' + nested + '},"arrays":[]}')
    with pytest.raises(BadBytes, match="header of the statistics cannot be read"):
        Statistics.from_bytes(data)


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([("a", 1, 64), ("a", 1, 64)], "2 arrays; the limit is 64 with distinct names"),
        ([(f"a{i}", 1, 64) for i in range(MAX_ARRAYS + 1)], "65 arrays; the limit is 64"),
        ([("a", -1, 64)], "array 'a' has -1 integers of 64 bits"),
        ([("a", FAR + 1, 64)], f"array 'a' has {FAR + 1} integers"),
        ([("a", 10**30, 64)], f"array 'a' has {10**30} integers"),
        ([("a", 1, 0)], "of 0 bits"),
        ([("a", 1, 33)], "of 33 bits"),
        ([("a", 1, 128)], "of 128 bits"),
        ([("a", 1, -64)], "of -64 bits"),
        ([("ok", 1, 64), ("a", 1, 8)], "array 'a' has 1 integers of 8 bits"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(
    specs: list[tuple[str, int, int]], message: str
) -> None:
    empty = [array(0, 0, 1, 1)] * len(specs)
    with pytest.raises(BadBytes, match=message):
        Statistics.from_bytes(written(header_of(*specs), *empty))


def test_a_header_of_64_kb_is_read_within_any_limit_and_a_longer_one_is_not() -> None:
    learner = "c" * (65_536 - len(NO_ARRAYS) + 1)
    header = NO_ARRAYS.replace('"c"', f'"{learner}"')
    assert len(header) == 65_536
    data = written(header)
    assert Statistics.from_bytes(data, max_bytes=0).to_bytes() == data
    longer = written(header.replace('"c', '"cc', 1))
    with pytest.raises(BadBytes, match="the header of the statistics has 65537 bytes; the limit"):
        Statistics.from_bytes(longer, max_bytes=65_536)
    assert Statistics.from_bytes(longer, max_bytes=65_537).to_bytes() == longer


def test_as_many_arrays_as_allowed_are_read() -> None:
    header = header_of(*[(f"a{i}", 1, 64) for i in range(MAX_ARRAYS)])
    assert read_or_refused(written(header, *[array(0, 0, 1, 1)] * MAX_ARRAYS))


@pytest.mark.parametrize(
    ("size", "head", "message"),
    [
        (FAR, (2**64 - 1, 0, 1, 1), "memory limit is"),
        (FAR, (FAR, 0, 8, 8), "memory limit is"),
        (FAR, (0, 1, 1, 1), "memory limit is"),
        (FAR, (1, 1, 1, 8), "memory limit is"),
        (FAR, (10**7, 0, 8, 8), "needs 80000000 bytes"),
        (10**7, (10**7, 1, 1, 8), "needs 80000000 bytes"),
        (10**7, (10**7 + 1, 0, 1, 8), "has 10000001 values in 10000000"),
        (3, (4, 0, 1, 1), "array 'a' has 4 values in 3"),
        (3, (4, 1, 1, 1), "array 'a' has 4 values in 3"),
    ],
)
def test_huge_counts_allocate_nothing(
    size: int, head: tuple[int, int, int, int], message: str
) -> None:
    with memory_below(50_000), pytest.raises(BadBytes, match=message):
        Statistics.from_bytes(written(header_of(("a", size, 64)), array(*head)))


@pytest.mark.parametrize("layout", [0, 1])
def test_max_bytes_is_respected_before_anything_is_allocated(layout: int) -> None:
    count = 100_000
    body = bytes(count if layout == 0 else 0) + b"\1" * count
    data = written(header_of(("a", count, 64)), array(count, layout, 1, 1, body))
    with memory_below(50_000), pytest.raises(BadBytes, match="memory limit is 1000 bytes"):
        Statistics.from_bytes(data, max_bytes=1000)


def test_reading_takes_little_more_memory_than_what_is_read() -> None:
    statistics = made(
        Schema("c", {}, (ArraySpec("a", FAR),)), {"a": {3 * i: i for i in range(40_000)}}
    )
    data = statistics.to_bytes()
    with memory_below(6 * statistics.nbytes):
        Statistics.from_bytes(data)


@pytest.mark.parametrize(
    ("layout", "gap_width", "width", "bits"),
    [
        (2, 1, 1, 64),
        (255, 1, 1, 64),
        (0, 0, 1, 64),
        (0, 9, 1, 64),
        (0, 255, 1, 64),
        (0, 1, 0, 64),
        (0, 1, 9, 64),
        (0, 1, 5, 32),
        (0, 1, 13, 96),
        (0, 1, 255, 96),
        (1, 0, 1, 64),
        (1, 1, 0, 64),
    ],
)
def test_unknown_layouts_and_widths_are_refused(
    layout: int, gap_width: int, width: int, bits: int
) -> None:
    message = f"array 'a' has layout {layout} and widths {gap_width} and {width}"
    for count in (0, 1):
        body = bytes(gap_width) + b"\1" * (width * 3)
        data = written(header_of(("a", 3, bits)), array(count, layout, gap_width, width, body))
        with pytest.raises(BadBytes, match=message):
            Statistics.from_bytes(data)


@pytest.mark.parametrize(
    ("size", "gaps"),
    [
        (FAR, [FAR]),
        (FAR, [2**64 - 1]),
        (FAR, [5, 2**64 - 1]),  # would be the same index again
        (FAR, [5, 2**64 - 3]),  # would go back
        (FAR, [FAR - 1, FAR - 1]),
        (FAR, [*[FAR - 1] * 4]),  # together they wrap around to index 3
        (FAR, [*[FAR - 1] * 5]),
        (9, [9]),
        (9, [0, 8]),
        (9, [5, 5]),
        (9, [*[0] * 9, 0]),
        (0, [0]),
    ],
)
@pytest.mark.parametrize("mode", ["never", "always"])
def test_indices_beyond_the_array_are_refused(
    size: int, gaps: list[int], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CHOICE, "mode", mode)
    body = b"".join(gap.to_bytes(8, "little") for gap in gaps) + b"\1" * len(gaps)
    data = written(header_of(("a", size, 64)), array(len(gaps), 0, 8, 1, body))
    with pytest.raises(BadBytes, match=r"an index outside its \d+ integers|values in"):
        Statistics.from_bytes(data)
