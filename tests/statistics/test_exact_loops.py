"""Compiled loops over exact integers give what numpy gives: sums, bytes, fingerprints, refusals."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from dealfl.errors import DealError
from dealfl.exact import CHOICE, ArraySpec, Entries, Integers, Schema, Statistics, compiled

pytest.importorskip("numba")
loops = import_module("dealfl.exact.loops")

SCHEMA = Schema(
    "test", {}, (ArraySpec("counts", 400, 32), ArraySpec("sums", 10**9), ArraySpec("wide", 50, 96))
)
BITS = {"counts": 31, "sums": 63, "wide": 95}


def store(data: Any, start: int, word: Any) -> None:
    data[start : start + 8] = np.frombuffer(np.int64(word).tobytes(), np.uint8)


def load(data: Any, start: int) -> Any:
    return np.frombuffer(data[start : start + 8].tobytes(), np.int64)[0]


def multiply(value: Any, key: Any) -> Any:
    product = int(value) * int(key)
    return np.uint64((product & ((1 << 61) - 1)) + (product >> 61))


def with_plain_numbers(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop whose answers are numbers of Python, like those of compiled loops."""

    def plain(answer: Any) -> Any:
        if isinstance(answer, tuple):
            return tuple(map(plain, answer))
        return answer.item() if isinstance(answer, np.generic) else answer

    return lambda *given: plain(loop(*given))


@pytest.fixture(params=["compiled", "written"], autouse=True)
def loops_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compile loops, or let Python run them as they are written, which checks every index."""
    pairs = [pair for pair in compiled._twins if pair.module == "dealfl.exact.loops"]
    if request.param == "written":
        for name, value in list(vars(loops).items()):
            monkeypatch.setattr(loops, name, getattr(value, "py_func", value))
        for name, value in (("_store", store), ("_load", load), ("_multiply", multiply)):
            monkeypatch.setattr(loops, name, value)
        for pair in pairs:
            monkeypatch.setattr(
                pair, "loop", with_plain_numbers(getattr(loops, pair.plain.__name__))
            )
            monkeypatch.setattr(pair, "failed", False)
    with np.errstate(all="ignore"):  # like compiled loops
        yield
    assert not any(pair.failed for pair in pairs)


def both(compute: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what numpy and compiled loops compute, which is the same."""
    answers = []
    for mode in ("never", "always"):
        monkeypatch.setattr(CHOICE, "mode", mode)
        try:
            answers.append(compute())
        except DealError as error:
            answers.append(f"{type(error).__name__}: {error}")
    assert answers[0] == answers[1]
    return answers[0]


def drawn(seed: int, bits: int, share: float) -> Statistics:
    """Return statistics with values of up to `bits` bits less than their arrays take."""
    draw = np.random.default_rng(seed)
    arrays = {}
    for spec in SCHEMA.arrays:
        many = min(int(spec.size * share), 200)
        places = draw.choice(min(spec.size, 10**6), many, replace=False) * (spec.size // 10**6 or 1)
        most = 1 << max(BITS[spec.name] - bits, 1)
        values = [int(draw.integers(-(2**62), 2**62)) * 2**33 % (2 * most) - most for _ in places]
        arrays[spec.name] = Entries.of(dict(zip(places.tolist(), values, strict=True)), spec.wide)
    return Statistics(SCHEMA, arrays)


@pytest.mark.parametrize("bits", [1, 2, 9, 25, 60, 94])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 1.0])
def test_sums_bytes_and_fingerprints_are_the_same(
    bits: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = drawn(1, bits, share), drawn(2, bits, 0.3)
    body = both((one + other).to_bytes, monkeypatch)
    assert both(lambda: (one + other).to_bytes(), monkeypatch) == body
    assert both(lambda: Statistics.from_bytes(body).to_bytes(), monkeypatch) == body
    assert both(lambda: ((one + other) - one - other).is_zero, monkeypatch)
    assert both((one + other).digest, monkeypatch) == Statistics.from_bytes(body).digest()
    dense = (one + other)["wide"].dense(50)
    found = both(lambda: Entries.of_dense(dense, 7).to_dict(), monkeypatch)
    assert found == {7 + place: value for place, value in enumerate(dense.tolist()) if value}
    total = both(lambda: (one + other).fingerprint(7), monkeypatch)
    assert total == (one.fingerprint(7) + other.fingerprint(7)) % ((1 << 61) - 1)


@pytest.mark.parametrize(("name", "step"), [("sums", 2**61), ("wide", 2**93)])
def test_fingerprints_of_multiples_of_large_powers_of_two_are_the_same(
    name: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [times * step + rest for times in (-3, -2, -1, 1) for rest in (0, 1, 2)]
    cells = Integers.of(values, name == "wide")
    one = Statistics(SCHEMA, {name: Entries(np.arange(len(values)), cells)})
    total = both(lambda: one.fingerprint(7), monkeypatch)
    alone = [
        Statistics(SCHEMA, {name: Entries(np.array([place]), cells[place : place + 1])})
        for place in range(len(values))
    ]
    monkeypatch.setattr(CHOICE, "mode", "never")
    assert total == sum(each.fingerprint(7) for each in alone) % ((1 << 61) - 1)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("length", [0, 1, 7, 8, 15, 16, 17, 64, 200, 333])
def test_few_values_among_zeros_are_found(
    length: int, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(length)
    for offset in (0, 1, 2):
        cells = np.zeros(length + offset, kind)[offset:]
        cells[draw.random(length) < 0.08] = -5
        cells[length - 1 :] = 3  # the last one is not in a whole group
        found = both(lambda: Entries.of_dense(Integers(cells), 7).to_dict(), monkeypatch)  # noqa: B023
        assert found == {7 + place: int(cells[place]) for place in np.flatnonzero(cells)}


@pytest.mark.parametrize("wide", [False, True])
def test_sums_of_values_carry_and_borrow(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [0, 1, 2**31, 2**32 - 1, 2**32, 2**62 - 1, *([2**64 - 1, 2**93] if wide else [])]
    values = [sign * end for end in ends for sign in (1, -1)]
    pairs = [(one, other) for one in values for other in values]
    first, second = (Integers.of(side, wide) for side in zip(*pairs, strict=True))
    assert both(lambda: (first + second).tolist(), monkeypatch) == [
        one + other for one, other in pairs
    ]
    found = both(lambda: Entries.of_dense(first + second).to_dict(), monkeypatch)
    assert found == {place: sum(pair) for place, pair in enumerate(pairs) if sum(pair)}
    single = Integers.of([2**32], wide)
    assert both(lambda: Entries.of_dense(single).to_dict(), monkeypatch) == {0: 2**32}


def test_sums_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, bits in BITS.items():
        wide = name == "wide"
        large = {one.name: Entries.of({}, one.wide) for one in SCHEMA.arrays}
        more = large | {name: Entries.of({3: 2**bits - 1, 4: 1}, wide)}
        one = Statistics(SCHEMA, large | {name: Entries.of({3: 2**bits - 1}, wide)})
        add = partial(Statistics.__add__, one, Statistics(SCHEMA, more))
        assert "does not fit" in both(add, monkeypatch)


def test_changed_bytes_are_refused_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytearray(drawn(3, 20, 0.3).to_bytes())
    for place in range(len(body) - 900, len(body), 7):
        damaged = bytes(body[:place]) + bytes([body[place] ^ 0x81]) + bytes(body[place + 1 :])
        both(partial(Statistics.from_bytes, damaged), monkeypatch)


@pytest.mark.parametrize("width", [1, 2, 3, 8])
@pytest.mark.parametrize("numbers", [[0], [4], [0, 1], [2, 9, 10], [0, 3, 40, 41, 99, 180]])
def test_indices_are_read_up_to_the_size_and_not_beyond(width: int, numbers: list[int]) -> None:
    gaps = np.diff(numbers, prepend=-1) - 1
    data = b"".join(int(gap).to_bytes(width, "little") for gap in gaps)
    given = np.frombuffer(data, np.uint8)
    for size in range(max(numbers) + 4):
        for count in range(1, len(numbers) + 1):
            indices = np.zeros(count, np.int64)
            is_inside = bool(loops.read_gaps(given[: count * width], width, size, indices))
            assert is_inside == (numbers[count - 1] < size)
            assert not is_inside or indices.tolist() == numbers[:count]
