"""The rules of erasure, on plain records: settled, suppressed, released."""

import math
from dataclasses import dataclass

import pytest

from dealfl.erasure import (
    Answer,
    Outstanding,
    ReleaseRule,
    Request,
    is_settled,
    list_suppressed,
    owner_hash,
)


@dataclass(frozen=True)
class Worker:
    incarnation: int
    counted: int


def test_a_request_is_settled_when_every_worker_has_answered() -> None:
    workers = {"v": Worker(1, 3), "w": Worker(1, 3)}
    answers = {"v": Answer(2, 1, 3)}
    assert not is_settled(answers, workers)
    assert is_settled(answers | {"w": Answer(0, 1, 0)}, workers)
    assert is_settled({}, {}), "nobody holds anything"


@pytest.mark.parametrize(("counted", "settled"), [(4, False), (5, True), (6, True)])
def test_an_answer_counts_once_the_updates_before_it_are_counted(
    counted: int, settled: bool
) -> None:
    assert is_settled({"w": Answer(1, 2, 5)}, {"w": Worker(2, counted)}) is settled


def test_an_answer_of_an_earlier_incarnation_is_settled() -> None:
    assert is_settled({"w": Answer(1, 1, 99)}, {"w": Worker(2, 0)})


def test_whoever_was_named_once_is_suppressed() -> None:
    requests = [Request("r", (b"b", b"a"), 1.0), Request("s", (b"b", b"c"), 2.0, published=True)]
    assert list_suppressed(requests) == (b"a", b"b", b"c")


def test_a_hash_depends_on_the_key_and_on_the_owner() -> None:
    hashes = {owner_hash(key, owner) for key in (b"k", b"l") for owner in ("ann", "bob")}
    assert len(hashes) == 4
    assert {len(one) for one in hashes} == {32}


def outstanding(*requested_s: float, settled: bool = True) -> list[Outstanding]:
    return [Outstanding(Request(str(s), (b"o",), s), settled) for s in requested_s]


def test_a_batch_of_one_holds_nothing_back() -> None:
    assert ReleaseRule(1, 1e9).release_at_s(outstanding(5.0, settled=False)) == -math.inf


def test_a_version_waits_for_a_batch_that_is_settled_or_for_the_deadline() -> None:
    rule = ReleaseRule(batch=2, deadline_s=100.0)
    assert rule.release_at_s([]) == -math.inf
    assert rule.release_at_s(outstanding(5.0)) == 105.0
    assert rule.release_at_s(outstanding(5.0, 5.5)) == -math.inf
    unsettled = [*outstanding(5.5, settled=False), *outstanding(5.0)]
    assert rule.release_at_s(unsettled) == 105.0, "the oldest decides"
