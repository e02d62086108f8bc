"""The rules of erasure, on plain records: settled, suppressed, released."""

import hmac
import math

import pytest

from dealfl.erasure import (
    Outstanding,
    ReleaseRule,
    example_hash,
    hash_request,
    next_position,
    owner_hash,
)
from dealfl.protocol.messages import Position


def test_a_request_is_known_by_its_name_and_its_owners() -> None:
    hashes = {
        hash_request(name, owners)
        for name in ("r", "s", "ra")
        for owners in ([b"a"], [b"b"], [b"a", b"b"], [b"ab"], [])
    }
    assert len(hashes) == 15


def test_a_place_in_the_list_stands_for_everything_before_it() -> None:
    start, first, second = Position(), hash_request("r", [b"a"]), hash_request("s", [b"b"])
    assert next_position(start, []) == start
    both = next_position(start, [first, second])
    assert both.number == 2
    assert both != next_position(start, [second, first])
    assert both == next_position(next_position(start, [first]), [second])


def test_a_hash_depends_on_the_key_and_on_the_owner() -> None:
    hashes = {owner_hash(key, owner) for key in (b"k", b"l") for owner in ("ann", "bob")}
    assert len(hashes) == 4
    assert {len(one) for one in hashes} == {32}


@pytest.mark.parametrize("size", [0, 1, 32, 63, 64, 65, 200])
def test_hashes_are_those_of_the_standard_library(size: int) -> None:
    key = bytes(range(size))
    assert owner_hash(key, "ann") == hmac.digest(key, b"ann", "sha256")
    assert example_hash(key, b"owner", b"body" * 50) == b"e" + hmac.digest(
        key, b"owner" + b"body" * 50, "sha256"
    )


def test_a_batch_of_one_holds_nothing_back() -> None:
    assert ReleaseRule(1, 1e9).release_at_s(Outstanding(1, False, 5.0)) == -math.inf


def test_a_version_waits_for_a_batch_that_is_settled_or_for_the_deadline() -> None:
    rule = ReleaseRule(batch=2, deadline_s=100.0)
    assert rule.release_at_s(Outstanding(0, True, 0.0)) == -math.inf
    assert rule.release_at_s(Outstanding(1, True, 5.0)) == 105.0
    assert rule.release_at_s(Outstanding(2, True, 5.0)) == -math.inf
    assert rule.release_at_s(Outstanding(2, False, 5.0)) == 105.0
