"""New rules reach everything that they govern, from the next call on."""

from msgspec.structs import replace

from dealfl.protocol.messages import Erased, Published, Welcome
from dealfl.server import Server
from tests.federation.parts import announce, joined, kinds, server, update


def change(one: Server, **rules: object) -> None:
    one.rules = replace(one.rules, **rules)


def test_how_long_a_worker_counts_as_alive() -> None:
    one = joined(presence_timeout_s=90.0)
    change(one, presence_timeout_s=10.0)
    messages = one.handle([announce(journal_id="another")], 20.0).messages
    assert [m.incarnation for m in messages if isinstance(m, Welcome)] == [2], "w is not alive"


def test_how_often_rounds_open() -> None:
    one = joined(round_every_s=0.0)
    change(one, round_every_s=100.0)
    first = one.handle([update(1, round=1), announce(waiting=9)], 5.0)
    assert "Assignment" in kinds(first.messages), "the first tick"
    closed = one.handle([update(2, 9, round=2)], 6.0)
    assert closed.wake_at_s == 105.0
    assert "Assignment" not in kinds(one.handle([announce(waiting=9)], 104.0).messages)
    assert "Assignment" in kinds(one.handle([], 105.0).messages)


def test_when_the_model_has_converged() -> None:
    one = joined(tolerance=0.0)
    change(one, tolerance=2.0, patience=1)  # every change is below it
    one.handle([update(1, round=1)], 1.0)
    assert one.finished


def test_when_a_version_may_be_published() -> None:
    one = server(release_batch=1)
    one.handle([announce("w", 0)], 0.0)
    change(one, release_batch=2, release_deadline_s=50.0)
    one.erase("r", [b"owner"], 1.0)
    one.handle([Erased(job="job", worker="w", request="r", examples=0)], 2.0)
    held_back = one.handle([update(1, round=1), announce()], 3.0).messages
    assert not any(isinstance(message, Published) for message in held_back)
    late = one.handle([update(2, round=2), announce()], 51.0).messages
    assert any(isinstance(message, Published) for message in late), "the deadline has passed"


def test_how_many_rounds_there_are() -> None:
    one = joined(rounds=5)
    change(one, rounds=1)
    one.handle([update(1, round=1), announce()], 1.0)
    assert one.finished
