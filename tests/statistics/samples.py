"""Small statistics of every width, and ways to draw them."""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from dealfl.exact import ArraySpec, Entries, Integers, Schema, Statistics

relaxed = settings(  # a busy machine is no failure
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)

WIDEST = 2**95 - 1
FAR = 2**62  # the largest array there is
SCHEMA = Schema(
    "counter",
    {"seed": 7, "bounds": [1.0, 16.0], "name": "µ"},
    (ArraySpec("few", 5, 32), ArraySpec("many", 20_000), ArraySpec("wide", 3, 96)),
)
SIZES = (0, 1, 5, 300, 4096, 20_000, FAR)


def integers(values: Iterable[int], wide: bool) -> Integers:
    return Integers.of(values, wide)


def made(schema: Schema, arrays: Mapping[str, Mapping[int, int]]) -> Statistics:
    """Return statistics from dicts; arrays that are not given are empty."""
    return Statistics(
        schema,
        {
            spec.name: Entries.of(dict(arrays.get(spec.name, {})), spec.wide)
            for spec in schema.arrays
        },
    )


def as_dicts(statistics: Statistics) -> dict[str, dict[int, int]]:
    return {name: statistics[name].to_dict() for name in statistics}


def values_of(bits: int, room: int = 0) -> st.SearchStrategy[int]:
    """Draw integers of so many bits; `room` bits are left for sums."""
    limit = 2 ** (bits - 1 - room) - 1
    return st.one_of(
        st.integers(-limit, limit),
        st.integers(-300, 300),
        st.sampled_from([limit, -limit, 2 ** (bits // 2), -(2 ** (bits // 2)) - 1]),
    )


def pairs_of(spec: ArraySpec, room: int = 0) -> st.SearchStrategy[dict[int, int]]:
    if not spec.size:
        return st.just({})
    near = st.integers(0, min(spec.size, 8) - 1)
    indices = near | st.integers(0, spec.size - 1) | st.just(spec.size - 1)
    return st.dictionaries(indices, values_of(spec.bits, room), max_size=12)


def statistics_of(schema: Schema, room: int = 2) -> st.SearchStrategy[Statistics]:
    drawn = {spec.name: pairs_of(spec, room) for spec in schema.arrays}
    return st.fixed_dictionaries(drawn).map(lambda arrays: made(schema, arrays))


@st.composite
def any_schema(draw: Any) -> Schema:
    names = draw(st.lists(st.text(max_size=5), max_size=4, unique=True))
    arrays = tuple(
        ArraySpec(name, draw(st.sampled_from(SIZES)), draw(st.sampled_from((32, 64, 96))))
        for name in names
    )
    plain = st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5)
    setting = (
        st.none()
        | plain
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.lists(plain, max_size=3)
    )
    chosen = draw(st.dictionaries(st.text(max_size=5), setting, max_size=3))
    return Schema(draw(st.text(max_size=5)), chosen, arrays)


def any_statistics() -> st.SearchStrategy[Statistics]:
    """Draw statistics of any schema, zeros and the extremes of every width among them."""
    return any_schema().flatmap(lambda schema: statistics_of(schema, room=0))


def written(header: str | bytes, *arrays: bytes, length: int | None = None) -> bytes:
    """Return bytes with any header and arrays, as a careless or hostile writer may make them."""
    text = header.encode() if isinstance(header, str) else header
    prefix = struct.pack("<8sHI", b"DEALSTAT", 1, len(text) if length is None else length)
    return b"".join([prefix, text, *arrays])


def array(count: int, layout: int, gap_width: int, width: int, body: bytes = b"") -> bytes:
    return struct.pack("<QBBB", count, layout, gap_width, width) + body


def header_of(*specs: tuple[str, int, int]) -> str:
    return Schema("c", {}, tuple(ArraySpec(*spec) for spec in specs)).canonical().decode()
