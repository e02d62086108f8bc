"""Bytes of a selector: canonical, and refused when they are not its own."""

import random
import time

import numpy as np
import pytest

from dealfl.errors import BadBytes, DealError
from dealfl.server.selection import Candidate, FairUpperConfidence
from dealfl.server.selection.saved_state import COLUMNS, unpack


def played() -> FairUpperConfidence:
    one = FairUpperConfidence(fairness=0.1)
    for number in range(1, 130):
        names = [f"w{place}" for place in range(6) if (number * place) % 5]
        for name in one.select(number, [Candidate(name) for name in names], 2)[:1]:
            one.record_reward(number, name, 0.5)
    return one


STATE = played().state()
WORKERS = len(unpack(STATE).names)


def test_the_state_is_canonical() -> None:
    one = FairUpperConfidence(fairness=0.1)
    one.restore(STATE)
    other = played()
    assert one.state() == other.state() == STATE
    for selector in (one, other):
        selector.select(130, [Candidate("w1")], 1)
    assert one.state() == other.state() != STATE


@pytest.mark.parametrize("length", [1, 10, 31, 33, len(STATE) - 1])
def test_truncated_bytes_are_refused(length: int) -> None:
    with pytest.raises(BadBytes):
        FairUpperConfidence().restore(STATE[:length])
    with pytest.raises(BadBytes):
        FairUpperConfidence().restore(STATE + b"\0")


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_values_that_can_not_be_are_refused(name: str) -> None:
    start = len(STATE) - WORKERS * sum(np.dtype(kind).itemsize for kind, _ in COLUMNS.values())
    for column, (kind, _) in COLUMNS.items():
        if column == name:
            break
        start += WORKERS * np.dtype(kind).itemsize
    kind = COLUMNS[name][0]
    wrong = {"f": np.nan, "i": -1, "u": 9}[np.dtype(kind).kind]
    bad = np.array(wrong, kind).tobytes()
    with pytest.raises(BadBytes, match=name):
        FairUpperConfidence().restore(STATE[:start] + bad + STATE[start + len(bad) :])


def test_a_hostile_length_allocates_nothing() -> None:
    hostile = STATE[:8] + b"\xff" * 4 + STATE[12:]
    with pytest.raises(BadBytes, match="its header requires"):
        FairUpperConfidence().restore(hostile)


def test_names_must_be_different() -> None:
    with pytest.raises(BadBytes, match="different names"):
        FairUpperConfidence().restore(STATE.replace(b"w1", b"w2"))


def test_damaged_bytes_are_refused_or_read_and_never_anything_else() -> None:
    draw = random.Random(1)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(STATE)
        for _ in range(draw.choice((1, 1, 2, 8))):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        one = FairUpperConfidence(fairness=0.1)
        try:
            one.restore(bytes(damaged))
        except DealError:
            refused += 1
            assert one.state() == FairUpperConfidence().state(), "nothing was changed"
        else:
            following = unpack(one.state()).round_number + 1
            one.select(following, [Candidate("w1"), Candidate("w9")], 1)
    assert refused > 500


def test_a_state_of_ten_thousand_workers_is_cheap() -> None:
    one = FairUpperConfidence()
    names = [f"worker {number:05d}" for number in range(10_000)]
    one.select(1, [Candidate(name) for name in names], 100)
    one.state()
    spent_s = []
    for name in one.names[:20]:
        one.record_reward(1, name, 0.5)
        start = time.perf_counter()
        one.state()
        spent_s.append(time.perf_counter() - start)
    assert min(spent_s) < 0.02, "names must not be packed again, nor arrays be walked in Python"
    assert len(unpack(one.state()).names) == 10_000
