"""Workers that can be selected, and what they may spend."""

from typing import Any

from dealfl.protocol.messages import Assignment, Erase, Message
from dealfl.server import (
    Rules,
    WorkerRow,
)
from dealfl.server.roster import Roster, note_spending
from dealfl.server.selection import Candidate, Uniform
from tests.federation.parts import announce, joined, server, update


def able(now_s: float = 0.0, **known: Any) -> bool:
    plain = WorkerRow("w", waiting=5, capacity_j=1000.0)
    changed = {name: known.get(name, getattr(plain, name)) for name in plain.__struct_fields__}
    return bool(Roster({"w": WorkerRow(**changed)}).find_candidates(Rules(), now_s))


def test_only_who_is_awake_idle_fitting_and_has_something_waiting_can_be_woken() -> None:
    assert able()
    assert not able(waiting=0)
    assert not able(training=True)
    assert not able(fits=False)
    assert not able(heard_s=None), "removed"
    assert able(180.0)
    assert not able(180.1), "not heard of for too long"
    assert able(-1e9), "after the clock jumped back everybody is awake"


def test_a_worker_spends_its_budget_of_charge_and_gets_a_new_one_the_next_day() -> None:
    row = WorkerRow("w", waiting=5, capacity_j=1000.0)  # 2 % of it are 20 J a day
    row = note_spending(note_spending(row, 7.0, 10.0), 7.0, 20.0)
    known = {name: getattr(row, name) for name in row.__struct_fields__} | {"heard_s": 90_000.0}
    assert not able(100.0, **known), "a third training would need 21 J"
    assert able(100.0, **(known | {"charging": True}))
    assert able(100.0, **(known | {"capacity_j": 0.0})), "no battery, no budget"
    assert able(86_411.0, **known)
    assert note_spending(row, 3.0, 86_411.0).spent_j == 3.0


def test_a_worker_is_worth_what_waits_up_to_a_cap() -> None:
    rows = Roster({str(n): WorkerRow(str(n), waiting=n) for n in (3, 100, 5000)})
    weights = {c.name: c.weight for c in rows.find_candidates(Rules(), 0.0)}
    assert weights == {"3": 3, "100": 100, "5000": 100}


def test_a_worker_of_another_job_or_with_another_schema_is_left_alone() -> None:
    one = server()
    one.handle([announce("a", 0, schema_digest="another")], 0.0)
    assert not one.workers["a"].fits
    assert one.reader.open_round() is None


def test_uniform_selection_repeats_itself_and_reaches_everybody() -> None:
    names = [Candidate(f"w{n}") for n in range(20)]
    rounds = [Uniform(3).select(number, names, 5) for number in range(100)]
    assert rounds == [Uniform(3).select(number, names, 5) for number in range(100)]
    assert all(len(set(chosen)) == 5 for chosen in rounds)
    assert {name for chosen in rounds for name in chosen} == {c.name for c in names}
    assert Uniform().select(1, names[:3], 5) == ["w0", "w1", "w2"]


def test_a_worker_is_idle_when_its_erasure_is_counted() -> None:
    one = joined("w")  # its first assignment ends after 60 s
    one.handle([update(1, 1, round=1)], 1.0)
    (order,) = one.erase("r", [b"hash"], 2.0).messages
    assert isinstance(order, Erase)
    known: dict[str, Any] = {"epoch": one.epoch, "round": 1, "erased": (order.after,)}
    said: list[Message] = [
        announce(training=True, **known),
        update(2, -1),
    ]  # made, but not sent; then sent
    answers = [*one.handle(said, 3.0).messages, *one.handle([announce(**known)], 4.0).messages]
    assert [answer.round for answer in answers if isinstance(answer, Assignment)] == [2]
