"""The stored state of a selector: canonical, in small parts, and refused when it is not its own."""

import random

import msgspec
import numpy as np
import pytest

from dealfl.errors import BadBytes, DealError
from dealfl.server.selection import Candidate, FairUpperConfidence
from dealfl.server.selection.bandit import BLOCK, COLUMNS, HEADER, unpack
from tests.selection.playing import Parts, save

NAMES = [f"w{place}" for place in range(BLOCK + 6)]


def played(parts: Parts | None = None) -> FairUpperConfidence:
    """Play some rounds; save after each step if `parts` are given."""
    one = FairUpperConfidence(fairness=0.01)
    for number in range(1, 130):
        names = [name for place, name in enumerate(NAMES) if (number + place) % 5]
        chosen = one.select(number, [Candidate(name) for name in names], 2)
        if parts is not None:
            parts.update(one.changes())
        one.record_reward(number, chosen[0], 0.5)
        if parts is not None:
            parts.update(one.changes())
    return one


STATE = save(played())


def restored(**changed: bytes) -> FairUpperConfidence:
    one = FairUpperConfidence(fairness=0.01)
    one.restore({name: part for name, part in (STATE | changed).items() if part})
    return one


def test_the_state_is_canonical_and_the_same_saved_once_or_at_every_step() -> None:
    steps: Parts = {}
    other = played(steps)
    assert steps == STATE
    one = restored()
    for selector in (one, other):
        selector.select(130, [Candidate("w1")], 1)
    assert save(one) == save(other)


def test_a_reward_is_saved_in_one_small_part_for_any_number_of_workers() -> None:
    one = FairUpperConfidence()
    names = [f"{number:064d}" for number in range(5_000)]
    chosen = one.select(1, [Candidate(name) for name in names], 10)
    assert len(one.changes()) == 1 + -(-5_000 // BLOCK)
    one.record_reward(1, chosen[3], 0.5)
    (part,) = one.changes().values()
    assert len(part) <= 10_000
    assert one.select(2, [Candidate(name) for name in names], 1)[0] in names[:BLOCK]
    assert set(one.changes()) == {HEADER, "0"}, "the silent, and the chosen"
    assert one.select(3, [Candidate(name) for name in names[:-1]], 1)[0] in names[:BLOCK]
    assert set(one.changes()) == {HEADER, "0", str(4_999 // BLOCK)}, "and who is gone"


def test_parts_follow_a_removal() -> None:
    one, parts = restored(), dict(STATE)
    for name in NAMES[:7]:
        one.remove(name)
        parts = save(one, parts)
    assert len(parts) == 1 + 1, "a header and one block are left"
    again = FairUpperConfidence(fairness=0.01)
    again.restore(parts)
    assert again.names == one.names
    assert set(one.names) == set(NAMES[7:])
    assert again.arms.mean.tolist() == one.arms.mean.tolist()


@pytest.mark.parametrize("name", sorted(STATE))
def test_truncated_and_missing_parts_are_refused(name: str) -> None:
    for bad in (b"", STATE[name][:1], STATE[name][:-1], STATE[name] + b"\0"):
        with pytest.raises(BadBytes):
            restored(**{name: bad})
    with pytest.raises(BadBytes, match="parts"):
        restored(**{"7": STATE["1"]})


def damaged(place: int, name: str, value: float) -> bytes:
    """Return block 1 with one value of one column replaced."""
    names, columns = msgspec.msgpack.decode(STATE["1"])
    at, (kind, _) = list(COLUMNS).index(name), COLUMNS[name]
    column = np.frombuffer(columns[at], kind).copy()
    column[place] = value
    columns[at] = column.tobytes()
    return msgspec.msgpack.encode([names, columns])


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_values_that_are_impossible_are_refused(name: str) -> None:
    wrong = {"f": np.nan, "i": -1, "u": 9}[np.dtype(COLUMNS[name][0]).kind]
    with pytest.raises(BadBytes, match=name):
        restored(**{"1": damaged(3, name, wrong)})
    if np.dtype(COLUMNS[name][0]).kind == "i":
        with pytest.raises(BadBytes, match=f"{name} after its last round|more selections"):
            restored(**{"1": damaged(3, name, 131 if name == "since" else 130)})


@pytest.mark.parametrize("name", ["mean", "allowed"])
def test_shares_above_one_are_refused(name: str) -> None:
    restored(**{"1": damaged(3, name, 1.0)})
    with pytest.raises(BadBytes, match=name):
        restored(**{"1": damaged(3, name, 1.5)})


def test_a_column_of_another_length_is_refused() -> None:
    names, columns = msgspec.msgpack.decode(STATE["1"])
    for bad in ([columns[0][:-8], *columns[1:]], columns[:-1]):
        with pytest.raises(BadBytes, match="does not fit its names"):
            restored(**{"1": msgspec.msgpack.encode([names, bad])})


def test_names_must_be_different() -> None:
    with pytest.raises(BadBytes, match="different names"):
        restored(**{"0": STATE["0"].replace(b"w1\xa2", b"w2\xa2")})


def test_a_state_of_another_version_is_refused() -> None:
    header = msgspec.msgpack.decode(STATE[HEADER])
    with pytest.raises(BadBytes, match="version 9"):
        restored(**{HEADER: msgspec.msgpack.encode([9, *header[1:]])})


def test_damaged_bytes_are_refused_or_read_and_never_anything_else() -> None:
    draw = random.Random(1)
    refused = 0
    for _ in range(2000):
        name = draw.choice(sorted(STATE))
        bad = bytearray(STATE[name])
        for _ in range(draw.choice((1, 1, 2, 8))):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        one = FairUpperConfidence(fairness=0.01)
        try:
            one.restore(STATE | {name: bytes(bad)})
        except DealError:
            refused += 1
            assert save(one) == save(FairUpperConfidence()), "nothing was changed"
        else:
            following = unpack(STATE | {name: bytes(bad)}).round_number + 1
            one.select(following, [Candidate("w1"), Candidate("new")], 1)
    assert refused > 500
