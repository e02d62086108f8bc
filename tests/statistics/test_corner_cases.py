"""Corners in which the lowest layer once went wrong."""

import contextlib
import hashlib
import struct
import sys
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dealfl.errors import BadBytes, BadInput, Incompatible, OutOfBounds
from dealfl.exact import (
    MAX_HEADER_BYTES,
    ArraySpec,
    Entries,
    FixedPoint,
    Integers,
    Schema,
    Statistics,
)
from dealfl.learners import NaiveBayes, SavedLearner

HEADER = '{"learner":"c","settings":{},"arrays":[{"name":"a","size":8,"bits":64}]}'


def written(header: str, *arrays: bytes) -> bytes:
    text = header.encode()
    return struct.pack("<8sHI", b"DEALSTAT", 1, len(text)) + text + b"".join(arrays)


def forged(path: Path, header: bytes, body: bytes = b"") -> Path:
    data = struct.pack("<8sHI", b"DEALFILE", 1, len(header)) + header + body
    path.write_bytes(data + hashlib.sha256(data).digest())
    return path


@pytest.mark.parametrize("body", [(1, b"\3\0"), (2, b"\3\0\5\0")])
def test_a_zero_stored_in_the_sparse_layout_is_refused(body: Any) -> None:
    count, stored = body
    with pytest.raises(BadBytes):
        Statistics.from_bytes(written(HEADER, struct.pack("<QBBB", count, 0, 1, 1) + stored))


def test_the_negative_of_the_smallest_64_bit_value_is_refused() -> None:
    with pytest.raises(OutOfBounds):
        -Integers.of([-(2**63)])


def test_subtracting_the_smallest_64_bit_value_is_exact_or_refused() -> None:
    try:
        left = (Integers.of([1]) - Integers.of([-(2**63)])).tolist()
    except OutOfBounds:
        return
    assert left == [2**63 + 1]


@pytest.mark.parametrize("ends", [("[", "]"), ('{"a":', "}")])
def test_no_depth_of_nesting_raises_anything_but_bad_bytes(ends: Any) -> None:
    for depth in range(1, sys.getrecursionlimit() + 20):
        nested = ends[0] * depth + "1" + ends[1] * depth
        data = written(f'{{"learner":"c","settings":{{"x":{nested}}},"arrays":[]}}')
        try:
            Statistics.from_bytes(data)
        except BadBytes:
            return


def deeper(levels: Any, call: Any) -> Any:
    return call() if levels == 0 else deeper(levels - 1, call)


def test_what_was_read_can_be_used_anywhere() -> None:
    for depth in range(sys.getrecursionlimit(), 0, -1):
        nested = "[" * depth + "]" * depth
        data = written(f'{{"learner":"c","settings":{{"x":{nested}}},"arrays":[]}}')
        try:
            read = Statistics.from_bytes(data)
        except (BadBytes, RecursionError):
            continue
        break
    assert deeper(60, read.digest) == read.digest()


def test_max_bytes_holds_for_all_arrays_together_before_they_are_allocated() -> None:
    specs = tuple(ArraySpec(f"a{i}", 200_000) for i in range(64))
    entries = Entries(np.arange(0, 80_000, 2), Integers(np.ones(40_000, dtype=np.int64)))
    data = Statistics(Schema("c", {}, specs), {spec.name: entries for spec in specs}).to_bytes()
    tracemalloc.start()
    with pytest.raises(BadBytes):
        Statistics.from_bytes(data, max_bytes=1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000, peak


def test_a_header_of_the_largest_size_takes_little_memory() -> None:
    many = "{}," * (MAX_HEADER_BYTES // 3 - 50)
    data = written(f'{{"learner":"c","settings":{{"x":[{many[:-1]}]}},"arrays":[]}}')
    tracemalloc.start()
    with contextlib.suppress(BadBytes):
        Statistics.from_bytes(data, max_bytes=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(data), peak


@pytest.mark.parametrize("other", [1.0, True])
def test_equal_statistics_have_equal_digests_and_bytes(other: Any) -> None:
    a = Statistics.zero(Schema("c", {"x": 1}, ()))
    b = Statistics.zero(Schema("c", {"x": other}, ()))
    assert (a == b) is (a.digest() == b.digest()) is (a.to_bytes() == b.to_bytes())


@pytest.mark.parametrize(
    "header",
    [
        b'{"learner":"\xff","settings":{},"sections":{}}',
        b'{"learner":"a","settings":{"x":' + b"[" * 5000 + b"]" * 5000 + b'},"sections":{}}',
        b'{"learner":"a","settings":{},"sections":{"a":6,"b":-4,"c":2}}',  # "a" reads the checksum
    ],
    ids=["not utf-8", "deep", "negative length"],
)
def test_a_forged_file_is_bad_bytes(tmp_path: Any, header: Any) -> None:
    with pytest.raises(BadBytes):
        SavedLearner.read(forged(tmp_path / "f", header, b"abcd" if b"-4" in header else b""))


@pytest.mark.parametrize(
    "header",
    [
        b'{"learner":"naive_bayes","settings":{"n_features":1,"classes":["a"],"feature_bound":1.0},"sections":{}}',
        b'{"learner":"naive_bayes","settings":{"nope":1},"sections":{}}',
        b'{"learner":"naive_bayes","settings":{},"sections":{}}',
    ],
    ids=["no statistics", "unknown setting", "no settings"],
)
def test_a_forged_learner_is_bad_input(tmp_path: Any, header: Any) -> None:
    with pytest.raises(BadInput):
        NaiveBayes.load(forged(tmp_path / "f", header))


def test_a_sum_of_32_bit_statistics_that_can_be_written_can_be_read() -> None:
    one = Statistics(Schema("c", {}, (ArraySpec("a", 4, 32),)), {"a": Entries.of({1: 2**31 - 1})})
    try:
        data = (one + one).to_bytes()
    except OutOfBounds:
        return
    assert Statistics.from_bytes(data) == one + one


def test_wide_sums_beyond_96_bits_are_refused() -> None:
    with pytest.raises(OutOfBounds):
        Integers.of([2**95 - 1], wide=True) + Integers.of([1], wide=True)


def test_sums_of_runs_beyond_96_bits_are_refused() -> None:
    with pytest.raises(OutOfBounds):
        Integers.of([2**95 - 1, 1], wide=True).sum_runs(np.array([0]))


def test_a_narrow_and_a_wide_vector_add_exactly_or_not_at_all() -> None:
    try:
        total = (Integers.of([1]) + Integers.of([2**40], wide=True)).tolist()
    except Exception:
        return
    assert total == [2**40 + 1]


def test_a_setting_of_none_against_a_missing_one_is_named() -> None:
    with pytest.raises(Incompatible, match="x = None"):
        Schema("c", {}, ()).require_same(Schema("c", {"x": None}, ()))


def test_a_huge_whole_number_as_a_bound_is_bad_input() -> None:
    with pytest.raises(BadInput):
        FixedPoint.of(1, 10**400, 8)


def test_complex_bounds_are_bad_input() -> None:
    with pytest.raises(BadInput):
        FixedPoint.of(1, np.array([3.0 + 2j]), 8)


def test_a_difference_beyond_the_floats_is_out_of_bounds_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OutOfBounds):
            FixedPoint.of(1, 1.0, 8, offset=-1.7e308).quantise(np.array([[1.7e308]]))


def test_max_bytes_is_what_nbytes_says() -> None:
    statistics = Statistics(
        Schema("c", {}, (ArraySpec("a", 10**6),)), {"a": Entries.of(dict.fromkeys(range(100), 1))}
    )
    assert Statistics.from_bytes(statistics.to_bytes(), max_bytes=statistics.nbytes) == statistics
