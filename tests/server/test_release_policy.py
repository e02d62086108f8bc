"""Versions wait until enough persons have left; updates until they hold enough examples."""

from typing import Any

import pytest

from dealfl.protocol.messages import Declined, Erase, Position, Update
from dealfl.server import Server
from dealfl.server.selection import Everyone
from dealfl.worker import Journal
from tests.federation.parts import (
    announce,
    assignment,
    bayes,
    examples,
    joined,
    row,
    update,
    updates,
    welcomed,
)


def count_versions(one: Server) -> int:
    last = one.reader.last_version()
    return last.number if last else 0


def in_second_round(**rules: Any) -> Server:
    one = joined("v", "w", rounds=99, publish_every_s=0.0, **rules)
    one.handle([update(1, 3, name="v", round=1), update(1, 3, name="w", round=1)], 1.0)
    assert count_versions(one) == 1
    return one


def evict(name: str, evicted: int, sequence: int = 2, **other: Any) -> Update:
    delta, plain = examples(1) - examples(evicted), {"round": 2, "learned": 1, "evicted": evicted}
    return update(sequence, name=name, delta=delta, **(plain | other))


@pytest.mark.parametrize(("batch", "evictions", "expected"), [
    (1, (3, 0), 2), (2, (0, 0), 2), (2, (3, 0), 1), (2, (3, 3), 2), (3, (3, 3), 1),
])  # fmt: skip
def test_evictions_count_like_erasures(
    batch: int, evictions: tuple[int, int], expected: int
) -> None:
    one = in_second_round(release_batch=batch, release_deadline_s=50.0)
    pair = zip(("v", "w"), evictions, strict=True)
    one.handle([evict(name, count) for name, count in pair], 2.0)
    assert count_versions(one) == expected
    one.handle([], 52.0)
    assert count_versions(one) == 2, "the deadline has passed"


def test_an_eviction_counts_for_one_version() -> None:
    one = in_second_round(release_batch=2, release_deadline_s=1e9)
    for sequence in (2, 3):
        one.handle([evict(name, 2, sequence, round=sequence) for name in "vw"], 1.0 * sequence)
        assert count_versions(one) == sequence
    one.handle([evict("v", 1, 4, round=4), update(4, name="w", round=4)], 4.0)
    assert count_versions(one) == 3, "v is the only one that evicts since the last version"
    one.handle([evict("w", 1, 5, round=None)], 5.0)
    assert count_versions(one) == 4


def test_a_full_sum_that_is_sent_again_shows_no_new_eviction() -> None:
    one = in_second_round(release_batch=2, release_deadline_s=1e9)
    one.handle([evict("v", 3, rebuilt=True), evict("w", 3)], 2.0)
    assert count_versions(one) == 1


def test_an_eviction_counts_when_its_update_counts() -> None:
    one = joined("v", "w", "x", rounds=99, publish_every_s=0.0, release_batch=2,
                 release_deadline_s=1e9)  # fmt: skip
    one.handle([update(1, 3, name=name, round=1) for name in "vwx"], 1.0)
    one.handle([evict("x", 2, 3, round=None)], 2.0)
    one.handle([evict("v", 2)], 3.0)
    assert count_versions(one) == 1, "an update of x before the eviction is missing"
    one.handle([evict("w", 2)], 4.0)
    assert count_versions(one) == 2
    one.handle([update(2, name="x"), update(3, name="v", round=3)], 5.0)
    one.handle([evict("w", 1, 3, round=3)], 6.0)
    assert (count_versions(one), one.model.statistics) == (3, examples(8)), "x and w evict"


def test_an_eviction_that_was_shown_does_not_count_again_with_a_later_one() -> None:
    one = in_second_round(release_batch=2, release_deadline_s=1e9)
    one.handle([evict("v", 2), evict("v", 1, 4, round=None), evict("w", 2)], 2.0)
    assert count_versions(one) == 2, "v evicted, and evicts again when its third update arrives"
    again = Server("job", bayes, one._ledger, one.rules, Everyone())
    again.handle([evict("w", 2, 3)], 3.0)
    assert count_versions(again) == 2, "w evicts; the third update of v is still missing"
    again.handle([update(3, 2, name="v")], 4.0)
    assert count_versions(again) == 3


def test_a_request_counts_its_persons_and_no_readmission() -> None:
    one = joined("v", "w", release_batch=3)
    one.erase("r", [b"a" * 32, b"b" * 32, b"c" * 32], 1.0)
    one.erase("s", [b"r" + b"a" * 32], 1.0)
    store = one._ledger.erasures
    assert (store.count_persons(0), store.count_persons(1)) == (3, 0)


def test_a_clock_that_jumps_back_delays_no_version_beyond_the_deadline() -> None:
    one = in_second_round(release_batch=8, release_deadline_s=50.0)
    first, second = (place for name in "rs" for place in request(one, name, 1e9))
    now_s = 1e9 - 86_400.0

    def reach(worker: str, place: Position, after_s: float) -> int:
        reached = announce(worker, waiting=0, sequence=1, erased=(place,), epoch=one.epoch)
        one.handle([reached], now_s + after_s)
        return count_versions(one)

    one.handle([], now_s + 60.0)  # the second round ends
    assert reach("v", second, 61.0) == 1
    assert reach("w", first, 62.0) == 2, "nobody knows how long ago they were requested"
    assert reach("w", second, 63.0) == 2, "the time has begun again"
    one.handle([], now_s + 113.0)
    assert count_versions(one) == 3


def request(one: Server, name: str, now_s: float) -> list[Position]:
    orders = one.erase(name, [name.encode() * 32], now_s).messages
    return [order.after for order in orders if isinstance(order, Erase)]


def test_a_worker_waits_until_an_update_holds_enough_examples() -> None:
    journal = Journal(journal_id="mark")
    one = welcomed(journal=journal, min_examples=3)
    one.ingest([("ann", row(0.1, 0.2, 0.3)), ("bob", row(0.1, 0.2, 0.3))])
    (declined,) = [m for m in one.handle([assignment(1)], 1.0).messages if isinstance(m, Declined)]
    assert declined.reason == "too few waiting examples"
    one.ingest([("eve", row(0.1, 0.2, 0.3))])
    (sent,) = updates(one.handle([assignment(2)], 2.0).messages)
    assert sent.learned == 3


@pytest.mark.parametrize("enough", [1, 3, 5])
def test_a_worker_is_selected_as_soon_as_an_update_can_hold_enough_examples(enough: int) -> None:
    """An idle worker sends nothing; the server knows what was announced only."""
    rules: dict[str, Any] = {"min_examples_per_update": 3, "min_waiting": enough}
    server, one = joined("v", **rules), welcomed(min_examples=3, enough=enough)
    learned, now_s = 0, 0.0
    for count in range(1, 6):
        one.ingest([(f"person {count}", row(0.1, 0.2, 0.3))])
        for _ in range(6):
            now_s += 1.0
            step = one.handle(server.handle(one.handle([], now_s).messages, now_s).messages, now_s)
            learned += sum(sent.learned for sent in updates(step.messages))
        assert (learned > 0) == (count >= max(enough, 3)), f"{count} wait"
