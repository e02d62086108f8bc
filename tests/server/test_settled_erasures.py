"""An erasure is shown by a version only when what it took back has been counted everywhere."""

from dealfl.erasure import is_settled
from dealfl.messages import Erased, Published
from dealfl.server import Ledger
from tests.federation.parts import joined, update


def versions(messages: object) -> list[int]:
    return [m.version for m in messages if isinstance(m, Published)]  # type: ignore[attr-defined]


def erased(name: str, sequence: int) -> Erased:
    return Erased(job="job", worker=name, incarnation=1, request="r", examples=1, sequence=sequence)


def test_an_answer_alone_does_not_settle_an_erasure() -> None:
    ledger = Ledger()
    one = joined("v", "w", ledger=ledger, publish_every_s=0.0)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    one.erase("r", [b"owner"], 2.0)
    one.handle([erased("v", 1), erased("w", 2)], 3.0)
    (outstanding,) = ledger.reader.outstanding_erasures()
    assert (outstanding.name, outstanding.requested_s) == ("r", 2.0)
    assert not is_settled(ledger.reader.answers("r"), one.workers), "w's second update is missing"
    one.handle([update(2, -1, name="w", round=2), update(2, name="v", round=2)], 4.0)
    assert is_settled(ledger.reader.answers("r"), one.workers)
    assert ledger.reader.outstanding_erasures() == []


def test_a_batch_waits_for_what_was_taken_back() -> None:
    ledger = Ledger()
    one = joined("v", "w", ledger=ledger, release_batch=2, rounds=9, publish_every_s=0.0)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    one.erase("r", [b"owner"], 2.0)
    one.erase("s", [b"other"], 2.0)
    answers = [
        Erased(job="job", worker=name, incarnation=1, request=request, examples=1, sequence=2)
        for name in "vw"
        for request in "rs"
    ]
    one.handle(answers, 3.0)
    half = one.handle([update(2, name="v", round=2)], 4.0)
    late = one.handle([], 100.0)
    assert versions(half.messages) + versions(late.messages) == []
    done = one.handle([update(2, -1, name="w")], 200.0)
    settled = one.handle([], 300.0)
    assert len(versions(done.messages) + versions(settled.messages)) == 1
