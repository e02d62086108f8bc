"""Versions wait until enough persons have left; updates until they hold enough examples."""

from typing import Any

import pytest

from dealfl.messages import Declined
from dealfl.server import Server
from dealfl.server.erasure_store import ErasureStore
from dealfl.worker import Journal
from tests.federation.parts import assignment, examples, joined, row, update, updates, welcomed


def count_versions(one: Server) -> int:
    last = one.reader.last_version()
    return last.number if last else 0


def in_second_round(**terms: Any) -> Server:
    one = joined("v", "w", rounds=99, publish_every_s=0.0, **terms)
    one.handle([update(1, 3, name="v", round=1), update(1, 3, name="w", round=1)], 1.0)
    assert count_versions(one) == 1
    return one


def evict(name: str, evicted: int) -> object:
    delta = examples(1) - examples(evicted)
    return update(2, name=name, round=2, delta=delta, learned=1, evicted=evicted)


@pytest.mark.parametrize(("batch", "evictions", "expected"), [
    (1, (3, 0), 2), (2, (0, 0), 2), (2, (3, 0), 1), (2, (3, 3), 2), (3, (3, 3), 1),
])  # fmt: skip
def test_evictions_count_like_erasures(
    batch: int, evictions: tuple[int, int], expected: int
) -> None:
    one = in_second_round(release_batch=batch, release_deadline_s=50.0)
    pair = zip(("v", "w"), evictions, strict=True)
    one.handle([evict(name, count) for name, count in pair], 2.0)  # type: ignore[misc]
    assert count_versions(one) == expected
    one.handle([], 52.0)
    assert count_versions(one) == 2, "the deadline has passed"


def test_a_request_counts_its_persons_and_no_readmission() -> None:
    one = joined("v", "w", release_batch=3)
    one.erase("r", [b"a" * 32, b"b" * 32, b"c" * 32], 1.0)
    one.erase("s", [b"r" + b"a" * 32], 1.0)
    store = ErasureStore(one._ledger)
    assert (store.count_persons(0), store.count_persons(1)) == (3, 0)


def test_a_worker_waits_until_an_update_holds_enough_examples() -> None:
    journal = Journal(journal_id="mark")
    one = welcomed(journal=journal, min_examples=3)
    one.ingest([("ann", row(0.1, 0.2, 0.3)), ("bob", row(0.1, 0.2, 0.3))])
    (declined,) = [m for m in one.handle([assignment(1)], 1.0).messages if isinstance(m, Declined)]
    assert declined.reason == "too few waiting examples"
    one.ingest([("eve", row(0.1, 0.2, 0.3))])
    (sent,) = updates(one.handle([assignment(2)], 2.0).messages)
    assert sent.learned == 3
