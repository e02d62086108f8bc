"""Erasure on a worker: records, answers and repetitions."""

from dealfl.erasure import hash_request, owner_hash
from dealfl.protocol.messages import (
    Erase,
    Erased,
    ErasedReceipt,
)
from dealfl.worker import Journal
from tests.federation.parts import (
    KEY,
    delta_of,
    kinds,
    learned_statistics,
    updates,
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
