"""Updates count once, in order; versions and erasures are on record."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from dealfl.erasure import hash_request
from dealfl.errors import BadInput
from dealfl.protocol.messages import (
    Erase,
    Erased,
    Published,
    Receipt,
    Refusal,
    Update,
    Verdict,
    Welcome,
    Withdraw,
)
from dealfl.server import (
    Ledger,
)
from tests.federation.parts import announce, examples, joined, kinds, server, update


def test_the_same_update_again_gets_its_receipt_again_and_counts_once() -> None:
    one = joined()
    for moment_s in (1.0, 2.0, 100.0, 200.0):
        messages = one.handle([update(1, 2, round=1)] * 2, moment_s).messages
        assert [m.sequence for m in messages if isinstance(m, Receipt)] == [1, 1]
    assert one.model.statistics == examples(2)


def test_updates_after_a_gap_wait_and_then_count() -> None:
    one = joined()
    one.handle([update(3, 4), update(2, 2)], 1.0)
    one.handle([], 100.0)
    assert one.model.statistics.is_zero
    one.handle([update(1, 1, round=1)], 101.0)
    one.handle([], 500.0)
    assert one.model.statistics == examples(7)


def test_updates_after_a_gap_survive_a_restart() -> None:
    ledger = Ledger()
    one = joined(ledger=ledger)
    one.handle([update(2, 2)], 1.0)
    again = server(ledger)
    again.handle([update(1, 1, round=1)], 2.0)
    again.handle([], 500.0)
    assert again.model.statistics == examples(3)


def test_a_withdrawn_update_never_counts_and_leaves_no_gap() -> None:
    one = joined()
    withdraw = Withdraw(job="job", worker="w", incarnation=1, sequence=1)
    for _ in range(2):
        messages = one.handle([withdraw], 1.0).messages
        assert [m.withdrawn for m in messages if isinstance(m, Verdict)] == [True]
    late = one.handle([update(1, 5, round=1)], 2.0).messages
    assert [m.withdrawn for m in late if isinstance(m, Verdict)] == [True]
    one.handle([update(2, 2)], 3.0)
    one.handle([], 500.0)
    assert one.model.statistics == examples(2)


@pytest.mark.parametrize("counted", [True, False])
def test_an_update_on_record_cannot_be_withdrawn(counted: bool) -> None:
    one = joined("v", "w")
    one.handle([update(1, 5, round=1)], 1.0)
    if counted:
        one.handle([], 100.0)
    messages = one.handle([Withdraw(job="job", worker="w", incarnation=1, sequence=1)], 101.0)
    assert [m.withdrawn for m in messages.messages if isinstance(m, Verdict)] == [False]
    one.handle([], 500.0)
    assert one.model.statistics == examples(5)


def test_a_removed_worker_leaves_the_model_and_may_come_back() -> None:
    one = joined("a", "b")
    one.handle([update(1, 2, name="a", round=1), update(1, 5, name="b", round=1)], 1.0)
    one.remove("b", 2.0)
    assert one.model.statistics == examples(2)
    stale = one.handle([update(2, 1, name="b")], 3.0).messages
    assert "Refusal" in kinds(stale)
    back = one.handle([announce("b", 1)], 4.0).messages
    assert [m.incarnation for m in back if isinstance(m, Welcome)] == [2]
    one.handle([update(1, 5, name="b", incarnation=2)], 5.0)
    one.handle([], 500.0)
    assert one.model.statistics == examples(7)
    with pytest.raises(BadInput, match="no worker called 'nobody'"):
        one.remove("nobody", 6.0)


def test_an_update_of_a_stranger_is_not_lost_it_is_left_with_its_sender() -> None:
    one = joined()
    messages = one.handle([update(1, name="stranger")], 1.0).messages
    assert not any(isinstance(m, (Receipt, Refusal)) for m in messages)
    assert not any(isinstance(m, Update) for m in messages)


# -- published versions and erasures ------------------------------------------------------------


def published(messages: Sequence[object]) -> list[int]:
    return [message.version for message in messages if isinstance(message, Published)]


def test_every_closed_round_publishes_the_model_of_all_that_counted() -> None:
    one = joined()
    messages = one.handle([update(1, 2, round=1), announce()], 1.0).messages
    (version,) = [m for m in messages if isinstance(m, Published)]
    assert version.version == 1
    assert version.digest == one.model.digest()
    assert version.statistics == examples(2).to_bytes()


def test_with_a_few_erasures_pending_nothing_is_published_before_the_deadline() -> None:
    one = joined(release_batch=3, release_deadline_s=1000.0)
    one.erase("first", [b"owner"], 1.0)
    number = 1
    for moment_s in (2.0, 500.0, 900.0):
        step = one.handle([update(number, round=number), announce()], moment_s)
        assert published(step.messages) == []
        number += 1
    assert published(one.handle([update(4, round=4), announce()], 1001.0).messages) == [1]


def test_an_answer_to_an_erasure_is_put_on_record() -> None:
    one = joined()
    one.erase("first", [b"owner"], 1.0)
    asked = one.handle([announce()], 2.0).messages
    assert "Erase" in kinds(asked), "who did not answer is asked again"
    (order,) = [m for m in asked if isinstance(m, Erase)]
    own = hash_request("first", order.owners)
    answer = Erased(job="job", worker="w", request="first", hash=own, examples=3)
    assert "ErasedReceipt" in kinds(one.handle([answer], 3.0).messages)
    assert "Erase" not in kinds(one.handle([announce(erased=(order.after,))], 4.0).messages)
    assert one.reader.answers("first") == {"w": 3}
    other = Erased(job="job", worker="w", request="first", hash=b"others", examples=9)
    assert "ErasedReceipt" in kinds(one.handle([other], 5.0).messages), "nobody waits for it"
    assert one.reader.answers("first") == {"w": 3}


def test_a_worker_that_joins_later_learns_whom_to_keep_out() -> None:
    one = joined()
    one.erase("first", [b"two", b"one"], 1.0)
    messages = one.handle([announce("new", 0)], 2.0).messages
    (part,) = [m for m in messages if isinstance(m, Erase)]
    (welcome,) = [m for m in messages if isinstance(m, Welcome)]
    assert part.owners == (b"one", b"two")
    assert welcome.erased == part.after


def test_a_message_of_another_job_is_ignored() -> None:
    one = joined("w")
    other = replace(update(1, 2, round=1), job="other")
    assert one.handle([other], 1.0).messages == ()
    assert one.workers["w"].counted == 0
