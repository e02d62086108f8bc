"""Erasure on a worker: records, answers and repetitions."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.erasure import READMISSION, hash_request, owner_hash
from dealfl.protocol.messages import (
    Announce,
    Erase,
    Erased,
    ErasedReceipt,
    Position,
    Receipt,
    Verdict,
)
from dealfl.worker import Journal, State, WorkerKeys
from tests.federation.parts import (
    KEY,
    assignment,
    delta_of,
    kinds,
    learned_statistics,
    row,
    updates,
    welcome,
    welcomed,
)
from tests.worker.test_worker_training import some_rows, train


def erase(request: str, *owners: str) -> Erase:
    hashes = tuple(owner_hash(KEY, owner) for owner in owners)
    return Erase(job="job", worker="", request=request, owners=hashes)


def test_the_erased_are_forgotten_and_stay_out_when_they_come_again() -> None:
    journal = Journal()
    one = welcomed(journal=journal, forget_fraction="0")
    one.ingest(some_rows(4))
    total = delta_of(train(one, 1))
    step = one.handle([erase("r", "person 1", "nobody")], 2.0)
    (answer,) = [m for m in step.messages if isinstance(m, Erased)]
    assert answer.examples == 1
    (negative,) = updates(step.messages)
    assert total + delta_of(negative) == learned_statistics(journal)
    accepted = one.ingest(some_rows(4))
    assert (accepted.waiting, accepted.suppressed) == (3, 1)


def test_an_answer_is_sent_until_it_is_on_record_also_when_nothing_was_found() -> None:
    one = welcomed()
    assert "Erased" in kinds(one.handle([erase("r", "nobody")], 1.0).messages)
    assert "Erased" in kinds(one.handle([], 50.0).messages)
    own = hash_request("r", [owner_hash(KEY, "nobody")])
    other = ErasedReceipt(job="job", worker="w", request="r", hash=b"of others")
    assert "Erased" in kinds(one.handle([other], 90.0).messages)
    receipt = ErasedReceipt(job="job", worker="w", request="r", hash=own)
    one.handle([receipt], 91.0)
    assert "Erased" not in kinds(one.handle([], 200.0).messages)
    repeated = one.handle([erase("r", "nobody")], 201.0).messages
    assert [m.examples for m in repeated if isinstance(m, Erased)] == [0]


@pytest.mark.parametrize("addressee", ["", "w"])
def test_a_request_that_is_new_to_the_server_only_is_followed_by_an_announcement(
    addressee: str,
) -> None:
    """A server whose ledger was restored learns from it that the sum is without the person.

    What a server sends to one worker is the answer to an announcement.
    """
    one = welcomed()
    request = replace(erase("r", "ann"), worker=addressee, after=Position(1, b"chain"))
    assert "Announce" in kinds(one.handle([request], 1.0).messages)
    assert ("Announce" in kinds(one.handle([request], 2.0).messages)) == (not addressee)


def test_a_repeated_erasure_gives_the_same_answer_and_forgets_nothing_twice() -> None:
    journal = Journal()
    one = welcomed(journal=journal, forget_fraction="0")
    one.ingest(some_rows(4))
    total = delta_of(train(one, 1))
    for moment_s in (2.0, 3.0, 100.0):
        step = one.handle([erase("r", "person 1")], moment_s)
        assert [m.examples for m in step.messages if isinstance(m, Erased)] == [1]
    total = total + delta_of(journal.read_update(min(journal.outgoing)))
    assert len(journal.outgoing) == 1
    assert total == learned_statistics(journal)


def test_answers_to_another_process_settle_nothing() -> None:
    journal = Journal(journal_id="mark")
    made = welcomed(journal=journal)
    made.ingest([("ann", row(0.0, 0.5, 1.0))])
    made.handle([assignment(1)], 1.0)
    session = journal.state.session
    key: dict[str, Any] = {"job": "job", "worker": "w", "incarnation": 1, "sequence": 1}
    made.handle([Receipt(**key, session=session - 1)], 2.0)
    made.handle([Verdict(**key, session=session - 1, withdrawn=True)], 3.0)
    assert list(journal.outgoing) == [1]
    made.handle([Receipt(**key, session=session)], 4.0)
    assert not journal.outgoing


def test_a_part_of_the_list_is_compacted_when_its_end_is_reached(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "journal.db", journal_id="mark")) as journal:
        made = welcomed(journal=journal)
        end = Position(1, b"chain")
        made.handle([Erase(job="job", worker="w", owners=(b"o" * 32,), after=end)], 1.0)
        assert journal.state.is_suppressed, "more parts may follow"
        compacted: list[Journal] = []

        def compact(one: Journal) -> bool:
            compacted.append(one)
            return True

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Journal, "compact", compact)
            made.handle([welcome(journal, incarnation=2, erased=end)], 100.0)
        assert compacted, "the journal may hold what was evicted before"
        assert not journal.state.is_suppressed


def test_evicted_records_leave_the_grace_area_at_the_next_training() -> None:
    journal = Journal(journal_id="mark")
    keys = WorkerKeys(model="resident", validation_share=1e-9, recovery_tolerance=1.0)
    made = welcomed(journal=journal, keys=keys, forget_fraction="1")
    for number in range(1, 4):
        made.ingest([(f"person {number}", row(0.0, 0.5, 1.0))] * 2)
        made.handle([assignment(number)], float(number))
    assert (journal.count(State.LEARNED), journal.count(State.GRACE)) == (2, 2)


def test_requests_are_applied_in_the_order_of_the_list() -> None:
    """One that comes too early could be the readmission of somebody who is not erased yet."""
    journal = Journal()
    one = welcomed(journal=journal, forget_fraction="0")
    one.ingest(some_rows(3))
    train(one, 1)
    first, second = Position(1, b"chain 1"), Position(2, b"chain 2")
    later = replace(erase("s", "person 2"), before=first, after=second)
    early = one.handle([later], 2.0).messages
    assert "Announce" in kinds(early), "the server sends what is before"
    assert "Erased" not in kinds(early)
    assert journal.count(State.LEARNED) == 3
    done = one.handle([replace(erase("r", "person 1"), after=first), later], 3.0).messages
    assert [m.examples for m in done if isinstance(m, Erased)] == [1, 1]
    assert journal.count(State.LEARNED) == 1


def test_a_known_request_forgets_nobody_who_was_readmitted_since() -> None:
    journal = Journal()
    one = welcomed(journal=journal, forget_fraction="0")
    one.ingest([("ann", row(0.0, 0.5, 1.0))])
    train(one, 1)
    first, second = Position(1, b"chain 1"), Position(2, b"chain 2")
    request = replace(erase("r", "ann"), after=first)
    again = Erase(
        job="job", worker="", request="back", before=first, after=second,
        owners=(READMISSION + owner_hash(KEY, "ann"),),
    )  # fmt: skip
    one.handle([request, again], 2.0)
    assert one.ingest([("ann", row(1.0, 0.5, 1.0))]).waiting == 1, "a new example"
    repeated = one.handle([request], 3.0).messages
    assert [m.examples for m in repeated if isinstance(m, Erased)] == [1], "the answer of before"
    assert journal.count(State.WAITING) == 1


def test_a_request_at_a_place_that_the_journal_lacks_is_not_applied() -> None:
    """The server took it for known; the journal was restored since, and lacks others, too."""
    journal = Journal()
    one = welcomed(journal=journal, forget_fraction="0")
    one.ingest(some_rows(3))
    train(one, 1)
    first, third = Position(1, b"chain 1"), Position(3, b"chain 3")
    one.handle([replace(erase("r", "person 1"), after=first)], 2.0)
    known = replace(erase("s", "person 2"), worker="w", before=third, after=third)
    assert "Erased" not in kinds(one.handle([known], 3.0).messages)
    assert (journal.count(State.LEARNED), journal.reached) == (2, (first,))
    part = Erase(
        job="job", worker="w", before=first, after=third,
        owners=tuple(owner_hash(KEY, name) for name in ("person 0", "person 2")),
    )  # fmt: skip
    done = one.handle([part, known], 4.0).messages
    assert [m.examples for m in done if isinstance(m, Erased) and m.request == "s"] == [0]
    assert journal.count(State.LEARNED) == 0


def test_a_receipt_does_not_settle_an_update_that_is_asked_back() -> None:
    """It may be of a ledger that was lost; the verdict is of the present one."""
    journal = Journal(journal_id="mark")
    made = welcomed(journal=journal, forget_fraction="0")
    made.ingest([("ann", row(0.0, 0.5, 1.0))])
    made.handle([assignment(1)], 1.0)
    made.handle([erase("r", "ann")], 2.0)
    key: dict[str, Any] = {"job": "job", "worker": "w", "incarnation": 1, "sequence": 1}
    session = journal.state.session
    made.handle([Receipt(**key, session=session)], 3.0)
    assert 1 in journal.outgoing
    made.handle([Verdict(**key, session=session, withdrawn=True)], 4.0)
    assert 1 not in journal.outgoing
    (announced,) = [m for m in made.handle([], 500.0).messages if isinstance(m, Announce)]
    assert announced.withdrawn == (1,)
    made.handle([welcome(journal, incarnation=2)], 501.0)
    (announced,) = [m for m in made.handle([], 900.0).messages if isinstance(m, Announce)]
    assert announced.withdrawn == (), "of an earlier incarnation"


def test_a_session_that_no_process_can_have_is_not_followed() -> None:
    journal = Journal(journal_id="mark")
    made = welcomed(journal=journal)
    session = journal.state.session
    made.handle([welcome(journal, incarnation=2, session=1 << 53)], 1.0)
    assert (journal.state.session, journal.state.incarnation) == (session, 1)
    made.handle([welcome(journal, incarnation=2, session=session + 1)], 2.0)
    assert journal.state.session > session + 1


def test_a_known_place_that_is_not_among_the_last_is_announced_when_a_server_asks() -> None:
    """The list of a ledger that was restored can end there."""
    journal = Journal()
    one = welcomed(journal=journal)
    places = [Position()] + [Position(number, b"chain %d" % number) for number in range(1, 5)]
    requests = [
        replace(erase(f"r{number}", f"person {number}"), before=places[number - 1], after=place)
        for number, place in enumerate(places)
        if number
    ]
    one.handle(requests, 1.0)
    assert places[1] not in journal.reached
    step = one.handle([replace(requests[0], worker="w")], 2.0)
    (announced,) = [message for message in step.messages if isinstance(message, Announce)]
    assert announced.erased == tuple(reversed(places[1:]))
    assert "Announce" not in kinds(one.handle([replace(requests[3], worker="w")], 3.0).messages)
    (announced,) = [m for m in one.handle([], 900.0).messages if isinstance(m, Announce)]
    assert places[1] not in announced.erased, "only once"
