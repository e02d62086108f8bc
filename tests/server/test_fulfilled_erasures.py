"""An erasure is settled only when every worker has forgotten, and what it took back is counted."""

from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.erasure import hash_request
from dealfl.protocol import MAX_WITHDRAWN
from dealfl.protocol.messages import (
    Announce,
    Erase,
    Erased,
    ErasedReceipt,
    Message,
    Position,
    Published,
    Sleep,
    Welcome,
    Withdraw,
)
from dealfl.server import Ledger, Server
from tests.federation.parts import announce, examples, joined, server, update


def versions(messages: tuple[Message, ...]) -> list[int]:
    return [m.version for m in messages if isinstance(m, Published)]


def erase(one: Server, name: str, now_s: float) -> Position:
    """Request the erasure of one person; return the end of the list."""
    (order,) = one.erase(name, [name.encode()], now_s).messages
    assert isinstance(order, Erase)
    return order.after


def forgot(name: str, end: Position, sequence: int, **other: Any) -> Announce:
    """Return the announcement of a worker that has forgotten everyone up to a place."""
    return announce(name, erased=(end,), sequence=sequence, **other)


def shown(one: Server) -> int:
    version = one.reader.last_version()
    assert version is not None
    return version.erased


def test_a_worker_that_has_forgotten_settles_nothing_before_its_updates_count() -> None:
    one = joined("v", "w", publish_every_s=0.0)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    end = erase(one, "r", 2.0)
    one.handle([forgot("v", end, 1), forgot("w", end, 2), update(2, name="v", round=2)], 3.0)
    one.handle([], 100.0)
    assert shown(one) == 0, "w's second update is missing"
    one.handle([update(2, delta=examples(0), name="w")], 101.0)
    one.handle([], 200.0)
    assert shown(one) == 1


def test_a_later_announcement_is_confirmed_after_an_earlier_one_that_waits() -> None:
    """The worker says nothing more: it has announced all that it has forgotten."""
    one = joined("w", publish_every_s=0.0)
    one.handle([update(1, name="w", round=1)], 1.0)
    for number, request in enumerate(("r", "s", "t")):
        end = erase(one, request, 2.0)
        one.handle([forgot("w", end, 2 + number)], 3.0)
    one.handle([update(2, delta=examples(0), name="w", round=None)], 4.0)
    one.handle([], 100.0)
    assert shown(one) == 1
    one.handle([update(n, delta=examples(0), name="w", round=None) for n in (3, 4)], 101.0)
    one.handle([], 200.0)
    assert shown(one) == 3


def test_a_batch_waits_for_what_was_taken_back() -> None:
    one = joined("v", "w", release_batch=2, rounds=9, publish_every_s=0.0)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    erase(one, "r", 2.0)
    end = erase(one, "s", 2.0)
    one.handle([forgot("v", end, 2), forgot("w", end, 2)], 3.0)
    half = one.handle([update(2, name="v", round=2)], 4.0)
    late = one.handle([], 59.0)
    assert versions(half.messages) + versions(late.messages) == []
    done = one.handle([update(2, delta=examples(0), name="w")], 200.0)
    settled = one.handle([], 300.0)
    assert set(versions(done.messages) + versions(settled.messages)) == {2}


def test_what_an_earlier_incarnation_said_settles_nothing() -> None:
    one = joined("v", "w", rounds=9, publish_every_s=0.0)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    end = erase(one, "r", 2.0)
    one.handle([forgot("v", end, 1)], 3.0)
    one.handle([announce("w", 7)], 4.0)  # the ledger was restored: w begins a new incarnation
    old = Erased(job="job", worker="w", request="r", examples=1)
    one.handle([old, forgot("w", end, 1)], 5.0)
    one.handle([], 100.0)
    assert shown(one) == 0
    one.handle([forgot("w", end, 0, incarnation=8)], 101.0)
    one.handle([], 200.0)
    assert shown(one) == 1


def test_a_removed_worker_settles_everything() -> None:
    one = joined("v", "w", rounds=9, publish_every_s=0.0, release_batch=2)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    end = erase(one, "r", 2.0)
    one.handle([forgot("v", end, 1)], 3.0)
    assert versions(one.handle([], 100.0).messages) == [1], "repeated"
    one.remove("w", 101.0)
    end = erase(one, "s", 102.0)
    found = one.handle([forgot("v", end, 1)], 103.0).messages
    found += one.handle([], 200.0).messages
    assert 2 in versions(found), "v alone counts"
    assert shown(one) == 2


@pytest.mark.parametrize("session", [0, 7])
def test_a_message_from_before_its_removal_makes_nobody_a_member_again(session: int) -> None:
    """A broker had kept it: no erasure waits for a phone that is lost."""
    one = joined("v", "w", rounds=9, publish_every_s=0.0)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    one.remove("w", 2.0)
    late = one.handle([announce("w", session=session, sleeps=True, waiting=0)], 3.0).messages
    assert not any(isinstance(each, Sleep) for each in late), "it could not answer"
    welcomes = [each for each in late if isinstance(each, Welcome)]
    assert [(each.session, each.incarnation) for each in welcomes] == [(session, 2)]
    end = erase(one, "r", 4.0)
    one.handle([forgot("v", end, 1)], 5.0)
    one.handle([], 100.0)
    assert shown(one) == 1, "v alone counts"


@pytest.mark.parametrize("by", ["announcement", "update"])
def test_a_removed_worker_that_knows_its_new_incarnation_is_a_member_again(by: str) -> None:
    one = joined("v", "w", rounds=9, publish_every_s=0.0)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    one.remove("w", 2.0)
    one.handle([announce("w")], 3.0)
    back = announce("w", 2) if by == "announcement" else update(1, name="w", incarnation=2)
    one.handle([back], 4.0)
    end = erase(one, "r", 5.0)
    one.handle([forgot("v", end, 1)], 6.0)
    one.handle([], 100.0)
    assert shown(one) == 0, "w may still hold the person"
    one.handle([forgot("w", end, 0, incarnation=2)], 101.0)
    one.handle([], 200.0)
    assert shown(one) == 1


def test_a_deadline_releases_one_batch_and_not_everything_after_it() -> None:
    """A phone is away for ever: others are not released one by one."""
    one = joined("v", "w", rounds=10**6, release_batch=3, release_deadline_s=1000.0)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    released: list[int] = []
    for number in range(60):
        now_s = 100.0 * number + 2.0
        end = erase(one, f"r{number}", now_s)
        step = one.handle([forgot("v", end, 1 + number)], now_s + 1.0)
        step_too = one.handle([update(2 + number, name="v", round=number + 2)], now_s + 2.0)
        new = set(versions(step.messages + step_too.messages)) - set(released)
        released += sorted(new)
    assert 5 <= len(released) <= 7, "one in a thousand seconds"


def test_who_joins_later_has_nothing_to_forget_but_gets_the_list() -> None:
    one = joined(rounds=9, publish_every_s=0.0)
    one.handle([update(1, round=1)], 1.0)
    end = erase(one, "r", 2.0)
    one.handle([forgot("w", end, 1)], 3.0)
    one.handle([], 100.0)
    assert shown(one) == 1
    messages = one.handle([announce("new", 0)], 101.0).messages
    (part,) = [m for m in messages if isinstance(m, Erase)]
    assert (part.request, part.owners, part.after) == ("", (b"r",), end), "without an answer"
    assert one.reader.answers("r") == {"new": 0}


def test_who_joins_while_an_erasure_is_under_way_answers_it() -> None:
    """What it holds of the person, from before it joined, is part of the count."""
    one = joined(rounds=9, publish_every_s=0.0)
    one.handle([update(1, round=1)], 1.0)
    end = erase(one, "r", 2.0)
    messages = one.handle([announce("new", 0)], 3.0).messages
    (order,) = [m for m in messages if isinstance(m, Erase)]
    assert (order.request, order.owners, order.after) == ("r", (b"r",), end)
    assert one.reader.answers("r") == {}
    answer = Erased(
        job="job", worker="new", request="r", hash=hash_request("r", [b"r"]), examples=8
    )
    one.handle([answer], 4.0)
    assert one.reader.count_deleted("r") == (0, 8)


def test_a_version_counts_as_shown_when_it_was_delivered() -> None:
    ledger = Ledger()
    one = joined(ledger=ledger, rounds=9, publish_every_s=0.0)
    one.handle([update(1, round=1)], 1.0)
    end = erase(one, "r", 2.0)
    one.handle([forgot("w", end, 1)], 3.0)
    one.handle([], 100.0)
    version = ledger.reader.last_version()
    assert version is not None
    assert ledger.reader.count_erasures() == (1, 0)
    again = server(ledger)
    held: dict[str, Any] = {"version": version.number, "digest": version.digest}
    again.handle([announce(epoch="another", **held)], 101.0)
    assert ledger.reader.count_erasures() == (1, 0), "a number of another epoch"
    again.handle([announce(epoch=again.epoch, **held)], 102.0)
    assert ledger.reader.count_erasures() == (1, 1)


def test_a_version_that_the_transport_keeps_was_delivered() -> None:
    one = joined(rounds=9)
    one.handle([update(1, round=1)], 1.0)
    one.confirm(7)
    one.confirm(1)
    version = one.reader.last_version()
    assert version is not None
    assert version.delivered


def test_an_answer_of_a_worker_that_is_not_known_gets_its_receipt() -> None:
    one = joined("a")
    answer = Erased(job="job", worker="b", request="ann", examples=0)
    (receipt,) = one.handle([answer], 1.0).messages
    assert (type(receipt), receipt.worker) == (ErasedReceipt, "b")


def test_a_restored_journal_settles_what_an_earlier_process_promised() -> None:
    """The update that was to show the erasure was never sent, and is not in the backup."""
    one = joined("w")
    one.handle([update(1, 2, round=1)], 1.0)
    after = erase(one, "r", 2.0)
    one.handle([announce("w", sequence=2, receipted=1, session=5, erased=(after,))], 3.0)
    assert one.workers["w"].forgotten == 0, "update 2 is awaited"
    one.handle([announce("w", sequence=1, receipted=1, session=9, erased=(after,))], 4.0)
    one.handle([], 500.0)
    assert one.workers["w"].forgotten == 1


def test_a_worker_that_is_always_ahead_settles_what_it_promised_first() -> None:
    one = joined("w")
    one.handle([update(1, 2, round=1)], 1.0)
    after = erase(one, "r", 2.0)
    for sequence in range(2, 6):  # one more update is made before the last one has arrived
        one.handle([announce("w", sequence=sequence, receipted=1, erased=(after,))], 3.0)
    one.handle([update(2, 1)], 4.0)
    one.handle([], 500.0)
    assert one.workers["w"].forgotten == 1


def test_a_ledger_is_compacted_as_soon_as_an_erasure_is_settled() -> None:
    ledger = Ledger()
    one = joined("w", ledger=ledger)
    one.handle([update(1, 2, round=1)], 1.0)
    end = erase(one, "r", 2.0)
    one.handle([forgot("w", end, 1)], 3.0)
    assert ledger.state.compacted == 1
    asked = "SELECT CAST(value AS TEXT) FROM settings WHERE name = 'compact'"
    assert ledger.execute(asked).fetchone() == ("now",), "a database in memory keeps the request"


def test_nothing_of_a_newcomer_counts_before_it_says_whom_it_has_forgotten() -> None:
    """Its first update may be of a history that the ledger has lost."""
    one = joined("v", rounds=9, publish_every_s=0.0)
    one.handle([update(1, name="v", round=1)], 1.0)
    end = erase(one, "r", 2.0)
    one.handle([forgot("v", end, 1), announce("w", 0)], 3.0)
    assert one._members.fulfilled == 1, "a newcomer has nothing in the model"
    one.handle([update(1, name="w")], 4.0)
    one.handle([], 100.0)
    assert one.workers["w"].counted == 0
    one.handle([forgot("w", end, 2)], 101.0)
    one.handle([], 200.0)
    assert one.workers["w"].counted == 0, "its second update takes them out"
    one.handle([update(2, delta=examples(0), name="w")], 201.0)
    one.handle([], 300.0)
    assert (one.workers["w"].counted, one.workers["w"].forgotten) == (2, 1)


def test_a_newcomer_that_knows_the_list_counts_at_once() -> None:
    one = joined("v", rounds=9, publish_every_s=0.0)
    end = erase(one, "r", 2.0)
    one.handle([forgot("v", end, 0), announce("w", 0), forgot("w", end, 0)], 3.0)
    one.handle([update(1, name="w")], 4.0)
    one.handle([], 100.0)
    assert one.workers["w"].counted == 1


def test_an_erasure_that_is_open_when_somebody_joins_waits_for_them_and_they_for_nothing() -> None:
    one = joined("v", rounds=9, publish_every_s=0.0)
    one.handle([update(1, name="v", round=1)], 1.0)
    end = erase(one, "r", 2.0)
    one.handle([announce("w", 0), update(1, name="w"), forgot("v", end, 1)], 3.0)
    one.handle([], 100.0)
    assert (one.workers["w"].counted, one._members.fulfilled) == (1, 0)
    one.handle([forgot("w", end, 1)], 101.0)
    assert one._members.fulfilled == 1


def awaited() -> tuple[Server, Position]:
    """Return a server that waits for what a newcomer says, and the end of its list."""
    one = joined("v", rounds=9, publish_every_s=0.0)
    one.handle([update(1, name="v", round=1)], 1.0)
    end = erase(one, "r", 2.0)
    one.handle([forgot("v", end, 1), announce("w", 0)], 3.0)
    one.handle([], 100.0)
    return one, end


def test_who_never_says_whom_it_has_forgotten_costs_others_nothing() -> None:
    one, _ = awaited()
    one.handle([update(n, name="w") for n in range(1, 500)], 101.0)
    assert one._ledger.updates.count_stored(one.workers["w"]) == 64
    one.handle([], 200.0)
    assert not one._aggregation.has_pending(201.0), "other messages do not look at them"


def test_updates_that_have_to_be_counted_together_are_stored_however_many() -> None:
    """The last of them takes out whom the others contain."""
    one, end = awaited()
    one.handle([update(n, name="w") for n in range(1, 71)], 101.0)
    assert one._ledger.updates.last_sequence("w", 1) == 64
    one.handle([forgot("w", end, 90)], 103.0)
    one.handle([update(n, name="w") for n in range(65, 99)], 104.0)
    one.handle([], 200.0)
    assert one.workers["w"].counted == 98


def test_updates_wait_until_a_new_process_has_sent_them_again() -> None:
    """A version has shown that somebody left, and a restored journal may have other updates."""
    one = joined("w", rounds=9, publish_every_s=0.0)
    one.handle([update(1, round=1)], 1.0)
    end = erase(one, "r", 2.0)
    one.handle([forgot("w", end, 1)], 3.0)
    one.handle([], 100.0)
    assert shown(one) == 1
    one.handle([announce("w", 7, session=5)], 101.0)  # the ledger was restored
    known: dict[str, Any] = {"incarnation": 8, "session": 5}
    one.handle([announce("w", 8, session=5), update(1, **known), update(2, **known)], 102.0)
    one.handle([announce("w", 8, session=9, sequence=2, erased=(end,))], 103.0)
    one.handle([], 200.0)
    assert one.workers["w"].counted == 0
    for sequence in (1, 2):
        one.handle([update(sequence, **(known | {"session": 9}))], 201.0)
    one.handle([], 300.0)
    assert one.workers["w"].counted == 2


def test_requests_that_a_worker_passed_in_a_part_are_asked_with_a_place_that_it_knows() -> None:
    """It has no place between them, so it would take them for requests that come too early."""
    one = joined("w", rounds=9, publish_every_s=0.0)
    ends = [erase(one, request, 2.0) for request in ("r", "s", "t")]
    asked = one.handle([announce("w", erased=(ends[1],))], 3.0).messages
    orders = [message for message in asked if isinstance(message, Erase)]
    assert [order.request for order in orders] == ["r", "s", "t"]
    assert [order.after for order in orders] == [ends[1], ends[1], ends[2]]
    assert [order.before for order in orders] == [ends[1]] * 3


def again(**other: Any) -> Server:
    """Return a server with two updates of a process that has ended, and an erasure after it."""
    one = joined("w", rounds=9, publish_every_s=0.0)
    one.handle([announce("w", session=5), update(1, round=1, session=5), update(2, session=5)], 1.0)
    end = erase(one, "r", 2.0)
    state = {"session": 9, "receipted": 0, "sequence": 2} | other
    one.handle([announce("w", erased=(end,), **state)], 3.0)
    return one


def test_a_claim_waits_until_a_new_process_has_the_updates_on_record() -> None:
    """If its journal was restored, it has made others, and sends those."""
    one = again()
    one.handle([], 100.0)
    assert (one.workers["w"].counted, one.workers["w"].forgotten) == (2, 0)
    one.handle([update(1, round=1, session=9)], 101.0)
    assert one.workers["w"].forgotten == 0
    one.handle([update(2, session=9)], 102.0)
    assert one.workers["w"].forgotten == 1


def test_a_claim_is_confirmed_by_a_new_process_that_has_receipts_already() -> None:
    one = again()
    end = one._ledger.erasures.end()
    one.handle([announce("w", session=9, receipted=1, sequence=2, erased=(end,))], 101.0)
    assert one.workers["w"].forgotten == 0
    one.handle([announce("w", session=9, receipted=2, sequence=2, erased=(end,))], 102.0)
    assert one.workers["w"].forgotten == 1
    assert again(receipted=2).workers["w"].forgotten == 1


@pytest.mark.parametrize("worker", ["w", None])
def test_updates_that_are_dropped_are_awaited_no_longer(worker: str | None) -> None:
    one = again()
    updates, row = one._ledger.updates, one.workers["w"]
    assert updates.is_disputed(row, 2)
    updates.drop_all() if worker is None else updates.drop(worker)
    assert not updates.is_disputed(row, 2)


def withdrawn(*sequences: int) -> Server:
    """Return a server that has counted ten updates but for some that were withdrawn."""
    one = joined("w", rounds=9, publish_every_s=0.0)
    one.handle([Withdraw(job="job", worker="w", incarnation=1, sequence=n) for n in sequences], 1.0)
    one.handle([update(n) for n in range(1, 11) if n not in sequences], 1.0)
    one.handle([], 100.0)
    assert one.workers["w"].counted == 10
    return one


@pytest.mark.parametrize(
    ("known", "settled", "incarnation"),
    [
        ((), 3, 1),  # the verdict about 4 has not arrived
        ((4,), 3, 1),
        ((4,), 6, 1),
        ((4, 7), 10, 1),
        ((4,), 10, 2),
        ((), 10, 2),
        ((7,), 10, 2),
        ((4,), 7, 2),
        ((4, 5, 7), 10, 2),
        ((4, 7, 9), 8, 2),
    ],
)
def test_verdicts_of_a_ledger_that_was_lost_begin_a_new_incarnation(
    known: tuple[int, ...], settled: int, incarnation: int
) -> None:
    one = withdrawn(4, 7)
    one.handle([announce("w", receipted=settled, sequence=10, withdrawn=known)], 101.0)
    assert one.workers["w"].incarnation == incarnation


def test_withdrawals_before_the_last_that_a_worker_names_are_not_compared() -> None:
    one = withdrawn(2)
    some = tuple(range(11, 11 + MAX_WITHDRAWN))
    asked = [Withdraw(job="job", worker="w", incarnation=1, sequence=n) for n in some]
    one.handle(asked, 101.0)
    one.handle([announce("w", receipted=some[-1], sequence=some[-1], withdrawn=some)], 102.0)
    assert one.workers["w"].incarnation == 1
    less = (*some[1:], some[-1] + 1)
    one.handle([replace(asked[0], sequence=some[-1] + 1)], 103.0)
    one.handle([announce("w", receipted=some[-1], sequence=less[-1], withdrawn=less)], 104.0)
    assert one.workers["w"].incarnation == 1
    one.handle([announce("w", receipted=some[-1], sequence=less[-1], withdrawn=less[1:])], 105.0)
    assert one.workers["w"].incarnation == 2
