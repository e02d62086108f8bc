"""A region: an ordinary server below, an ordinary worker above, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.erasure import hash_request, owner_hash
from dealfl.errors import BadInput
from dealfl.learners import NaiveBayes
from dealfl.protocol import Message, Published, Step
from dealfl.protocol.messages import (
    Announce,
    Assignment,
    Declined,
    Erase,
    Erased,
    Fetch,
    Receipt,
    Update,
    Welcome,
)
from dealfl.server import FromParent, Ledger, Region, Rules, Server
from dealfl.server.selection import Everyone
from tests.federation.parts import KEY, announce, bayes, examples, update
from tests.federation.trees import ROOT, Tree

HASH = hash_request("ann", [b"ann"])
RULES = Rules(rounds=1000, ttl_s=60.0, publish_every_s=0.0)


def root(ledger: Ledger | None = None, *regions: str, **rules: Any) -> Server:
    own = Rules(rounds=1000, ttl_s=60.0, publish_every_s=0.0, regions=regions or ("r",), **rules)
    return Server("job", bayes, ledger or Ledger(), own, Everyone())


def region(ledger: Ledger | None = None, name: str = "r", make: Any = bayes) -> Region:
    return Region("job", name, make, ledger or Ledger(), RULES, Everyone())


def up(step: Step) -> list[Message]:
    return [m for m in step.messages if isinstance(m, Announce | Update | Erased)]


def exchange(top: Server, below: Region, *messages: Any, now_s: float = 1.0) -> list[Message]:
    """Hand messages to a region, and carry what both say until both are silent."""
    said: list[Message] = []
    given: list[Any] = list(messages)
    for _ in range(20):
        step = below.handle(given, now_s)
        said += step.messages
        replies = top.handle(up(step), now_s).messages
        given = [FromParent(m) for m in replies if m.worker in ("", below.name)]
        if not given and not up(step):
            break
    return said


def joined(top: Server, ledger: Ledger | None = None, name: str = "r") -> Region:
    """Return a region that the root has welcomed."""
    below = region(ledger, name)
    below.meet(top.path, top.schema_digest)
    exchange(top, below)
    return below


def learn(top: Server, below: Region, sequence: int = 1, count: int = 2, name: str = "w") -> None:
    """Let a worker of the region send an update, and the region report it."""
    exchange(top, below, announce(name, 0 if sequence == 1 else 1))
    exchange(top, below, update(sequence, count, name=name, round=sequence))


def test_what_a_worker_of_a_region_learns_reaches_the_root_once() -> None:
    top = root(max_examples=3)
    below = joined(top)
    for sequence in range(1, 5):  # together more than one worker may have
        learn(top, below, sequence)
    assert top.model.statistics == examples(8) == below.model.statistics
    row = top.workers["r"]
    assert (row.devices, row.learned, row.flag, row.incarnation) == (1, 8, "", 1)


def test_what_the_workers_of_a_region_evict_is_told_to_the_root_once() -> None:
    top = root()
    below = joined(top)
    learn(top, below, count=5)
    for sequence, count in ((2, -2), (3, -1), (4, 1)):
        delta = examples(count) if count > 0 else -examples(-count)
        exchange(top, below, announce("w", 1))
        exchange(top, below, update(sequence, count, delta=delta, round=sequence))
    assert top.model.statistics == examples(3)
    assert (top.workers["r"].learned, top.workers["r"].evicted) == (6, 3)


def test_a_region_that_the_job_does_not_name_stays_out_whatever_else_it_is_flagged_for() -> None:
    top = root()
    below = joined(top, name="stranger")
    for problem in ("", "packet refused: too long"):
        top.flag("stranger", problem)
        learn(top, below, 1 if not problem else 2)
    assert top.model.statistics.is_zero
    assert "does not name" in top.workers["stranger"].flag


def test_the_ledger_of_a_region_has_the_total_that_was_posted() -> None:
    """A region publishes nothing of its own: no later version writes what came between rounds."""
    top, ledger = root(), Ledger()
    below = joined(top, ledger)
    learn(top, below)
    exchange(top, below, update(2, 3, name="w"))
    assert ledger.reader.total() == top.model.statistics == examples(5)


def test_an_update_is_made_once_and_the_next_after_its_receipt() -> None:
    top = root()
    below = joined(top)
    below.handle([announce("w", 0)], 1.0)
    below.handle([update(1, 2, name="w", round=1)], 2.0)
    order = Assignment(job="job", worker="r", epoch=top.epoch, round=7, deadline_s=9.0)
    (first,) = [m for m in up(below.handle([FromParent(order)], 3.0)) if isinstance(m, Update)]
    below.handle([announce("w", 1)], 4.0)
    below.handle([update(2, 3, name="w", round=2)], 4.0)
    later = Assignment(job="job", worker="r", epoch=top.epoch, round=8, deadline_s=9.0)
    assert not [m for m in up(below.handle([FromParent(later)], 5.0)) if isinstance(m, Update)]
    key: dict[str, Any] = {"job": "job", "worker": "r", "session": first.session, "term": "t"}
    stale = Receipt(**key, incarnation=1, sequence=2)
    assert not [m for m in up(below.handle([FromParent(stale)], 6.0)) if isinstance(m, Update)]
    (again,) = [m for m in up(below.handle([], 40.0)) if isinstance(m, Update)]
    assert again == first, "it is repeated, and never changes"
    receipt = Receipt(**key, incarnation=1, sequence=1)
    (second,) = [m for m in up(below.handle([FromParent(receipt)], 41.0)) if isinstance(m, Update)]
    assert (second.sequence, second.round, second.learned) == (2, 8, 3)


def test_an_update_that_follows_another_in_one_call_is_sent_after_a_restart() -> None:
    top, ledger = root(), Ledger()
    below = joined(top, ledger)
    below.handle([announce("w", 0)], 1.0)
    below.handle([update(1, 2, name="w", round=1)], 2.0)
    about: dict[str, Any] = {"job": "job", "worker": "r", "epoch": top.epoch, "deadline_s": 99.0}
    (first,) = [
        m
        for m in up(below.handle([FromParent(Assignment(**about, round=7))], 3.0))
        if isinstance(m, Update)
    ]
    below.handle([announce("w", 1)], 4.0)
    below.handle([update(2, 3, name="w", round=2)], 4.0)
    receipts = [FromParent(m) for m in top.handle([first], 5.0).messages if isinstance(m, Receipt)]
    below.handle([*receipts, FromParent(Assignment(**about, round=8))], 5.0)
    again = region(ledger)
    again.meet(top.path, top.schema_digest)
    exchange(top, again, now_s=60.0)
    assert top.model.statistics == examples(5)
    assert top.workers["r"].incarnation == 1


def test_an_erasure_is_reported_after_all_have_answered_and_the_parent_has_the_sum() -> None:
    tree = Tree(1, ["a"], workers=2)
    tree.network.loss = 0.0
    tree.run(100.0)
    tree.down.add("a/w1")  # it answers later
    request = tree.erase("person 1")
    tree.run(100.0)
    server, reader = tree.nodes[ROOT], tree.nodes[ROOT].reader
    assert reader.answers(request) == {}
    assert server.workers["a"].forgotten == 0
    tree.heal(200.0)
    assert server.workers["a"].forgotten == 1
    tree.check()


def order_to_erase(top: Server, name: str) -> Erase:
    (order,) = top.erase(name, [name.encode()], 1.0).messages
    assert isinstance(order, Erase)
    return order


def test_an_answer_that_is_lost_delays_the_report() -> None:
    """A worker's announcement says that it has forgotten; only its answer says how many."""
    top = root()
    below = joined(top)
    learn(top, below, count=8)
    order = order_to_erase(top, "ann")
    exchange(top, below, FromParent(order))
    end = below._ledger.erasures.end()
    forgot = announce("w", 1, sequence=2, erased=(end,))
    exchange(top, below, forgot, update(2, -8, name="w", delta=-examples(8)), now_s=2.0)
    exchange(top, below, now_s=100.0)
    assert top.model.statistics.is_zero, "the sum without the person is there"
    assert top.workers["r"].forgotten == 0
    answer = Erased(job="job", worker="w", request="ann", examples=8, hash=HASH)
    exchange(top, below, answer, now_s=101.0)
    assert top.workers["r"].forgotten == 1
    assert top.reader.count_deleted("ann") == (8, 8)


def test_a_request_is_fulfilled_when_the_parent_has_confirmed_the_sum_and_the_answer() -> None:
    top = root()
    below = joined(top)
    learn(top, below, count=8)
    order = order_to_erase(top, "ann")
    below.handle([FromParent(order)], 2.0)
    end = below._ledger.erasures.end()
    forgot = announce("w", 1, sequence=2, erased=(end,))
    answer = Erased(job="job", worker="w", request="ann", examples=8, hash=HASH)
    said = up(below.handle([forgot, update(2, -8, name="w", delta=-examples(8)), answer], 3.0))
    said += up(below.handle([], 90.0))
    (negative,) = [m for m in said if isinstance(m, Update)]
    assert not [m for m in said if isinstance(m, Erased)], "its receipt is missing"
    assert {m.forgotten for m in said if isinstance(m, Announce)} <= {0}
    receipts = top.handle([negative], 91.0).messages
    given = [FromParent(m) for m in receipts if m.worker == "r"]
    said = up(below.handle(given, 92.0))
    (reported,) = [m for m in said if isinstance(m, Erased)]
    assert (reported.examples, reported.removed, reported.devices) == (8, 8, 1)
    assert {m.forgotten for m in said if isinstance(m, Announce)} <= {0}
    exchange(top, below, *(FromParent(m) for m in top.handle([reported], 93.0).messages))
    assert top.workers["r"].forgotten == 1


def test_the_ledger_is_compacted_when_the_parent_has_the_sum_without_the_erased() -> None:
    """The update that was on its way says what they had."""
    top, ledger = root(), Ledger()
    below = joined(top, ledger)
    learn(top, below, count=8)
    below.handle([FromParent(order_to_erase(top, "ann"))], 2.0)
    forgot = announce("w", 1, sequence=2, erased=(ledger.erasures.end(),))
    said = up(below.handle([forgot, update(2, -8, name="w", delta=-examples(8))], 3.0))
    said += up(below.handle([], 90.0))
    (negative,) = [m for m in said if isinstance(m, Update)]
    receipts = top.handle([negative], 91.0).messages
    ledger.compact()
    assert asked_to_compact(ledger) is None
    below.handle([FromParent(m) for m in receipts if m.worker == "r"], 92.0)
    assert asked_to_compact(ledger) == ("now",)


def asked_to_compact(ledger: Ledger) -> Any:
    """Return the request of a compaction, which a database in memory keeps."""
    asked = "SELECT CAST(value AS TEXT) FROM settings WHERE name = 'compact'"
    return ledger.execute(asked).fetchone()


@pytest.mark.parametrize("is_made_again", [True, False])
def test_a_restart_or_a_request_that_is_made_again_does_not_make_a_region_look_restored(
    is_made_again: bool,
) -> None:
    """A region that must prove its answer again had fulfilled less, as an older copy has."""
    top, ledger = root(), Ledger()
    below = joined(top, ledger)
    order = order_to_erase(top, "ann")
    exchange(top, below, FromParent(order))
    assert top.workers["r"].forgotten == 1
    again = region(ledger)
    again.meet(top.path, top.schema_digest)
    exchange(top, again, *[FromParent(order)] * is_made_again, now_s=2.0)
    assert (top.workers["r"].forgotten, top.workers["r"].incarnation) == (1, 1)


def test_requests_are_taken_in_the_order_of_the_parents_list() -> None:
    top = root()
    below = joined(top)
    first, second = order_to_erase(top, "ann"), order_to_erase(top, "bob")
    said = up(below.handle([FromParent(second)], 2.0))
    assert below.reader.erasures() == []
    assert any(isinstance(m, Announce) for m in said), "it asks for what is missing"
    below.handle([FromParent(first), FromParent(second), FromParent(first)], 3.0)
    assert [erasure.name for erasure in below.reader.erasures()] == ["ann", "bob"]


def test_a_known_place_that_is_not_among_the_last_is_announced_when_the_parent_asks() -> None:
    """The list of a parent whose ledger was restored can end there."""
    top = root()
    below = joined(top)
    orders = [order_to_erase(top, name) for name in ("ann", "bob", "eve", "tom")]
    below.handle(list(map(FromParent, orders)), 2.0)
    for order in (orders[0], replace(orders[0], before=orders[0].after)):
        (said,) = [
            message
            for message in up(below.handle([FromParent(replace(order, worker="r"))], 3.0))
            if isinstance(message, Announce)
        ]
        assert [place.number for place in said.erased] == [4, 3, 2, 1]
    last = up(below.handle([FromParent(replace(orders[3], worker="r"))], 3.0))
    assert not [message for message in last if isinstance(message, Announce)]


@pytest.mark.parametrize("names", [("ann",), ("ann", "bob", "eve")])
def test_a_region_that_was_away_takes_all_requests_after_its_announcement(
    names: tuple[str, ...],
) -> None:
    top = root()
    below = joined(top)
    for name in names:
        order_to_erase(top, name)
    below.meet(top.path, top.schema_digest)
    exchange(top, below, now_s=2.0)
    assert [erasure.name for erasure in below.reader.erasures()] == list(names)
    assert (top.workers["r"].flag, top.workers["r"].forgotten) == ("", len(names))


def test_answers_that_overtake_each_other_do_not_ask_for_more() -> None:
    """An announcement is answered by many requests; one announcement for each would never end."""
    top = root()
    below = joined(top)
    orders = [replace(order_to_erase(top, name), worker="r") for name in ("ann", "bob", "eve")]
    for order in orders[1:]:
        assert not up(below.handle([FromParent(order)], 2.0))
    assert up(below.handle([FromParent(orders[0])], 2.0)), "it tells how far it has come"
    exchange(top, below, *map(FromParent, orders), now_s=3.0)
    assert [erasure.name for erasure in below.reader.erasures()] == ["ann", "bob", "eve"]


def test_the_erased_leave_with_an_update_of_their_own_and_are_counted_beside_new_examples() -> None:
    """New examples in the same update must not hide how many were removed."""
    tree = Tree(2, ["a"], workers=2)
    tree.network.loss = 0.0
    tree.run(100.0)
    request = tree.erase("person 1")
    for name in tree.journals:
        tree.arrive(name, 10)
    tree.run(300.0)
    held = sum(count for (_, owner), count in tree.ingested.items() if owner == "person 1")
    assert held > 0
    assert tree.nodes[ROOT].reader.count_deleted(request)[1] == held
    assert tree.nodes[ROOT].reader.answering_devices(request) == {"a": 2}
    tree.check()


def test_a_region_publishes_the_roots_versions_under_its_own_numbers() -> None:
    top = root()
    below = joined(top)
    learn(top, below)
    versions = [m for m in exchange(top, below, now_s=2.0) if isinstance(m, Published)]
    assert not versions, "published before"
    last, own = top.reader.last_version(), below.reader.last_version()
    assert last is not None
    assert own is not None
    assert own.digest == last.digest
    again = Region("job", "r", bayes, below._ledger, RULES, Everyone())
    again.meet(top.path, top.schema_digest)
    said = exchange(top, again, now_s=3.0)
    assert [m for m in said if isinstance(m, Fetch)], "the broker may have lost it"
    assert [m.version for m in said if isinstance(m, Published)] in ([], [own.number])
    assert again.reader.last_version() == own, "a restart is no new version"


def test_a_version_that_arrives_as_a_difference_is_relayed_whole() -> None:
    top = root(None, "r", "s")
    below, other = joined(top), joined(top, name="s")
    learn(top, below, count=8)
    held = top.reader.last_version()
    assert held is not None
    learn(top, other)
    fetch = Fetch(job="job", worker="r", epoch=top.epoch, version=held.number)
    (whole,) = (m for m in top.handle([fetch], 2.0).messages if isinstance(m, Published))
    difference = replace(whole, base=held.number, statistics=examples(2).to_bytes())
    said = below.handle([FromParent(difference)], 3.0).messages
    assert [m.statistics for m in said if isinstance(m, Published)] == [whole.statistics]
    assert not [m for m in said if isinstance(m, Fetch)], "it needs nothing else"


def test_a_region_without_news_says_so_when_it_is_selected() -> None:
    top = root()
    below = joined(top)
    learn(top, below)
    order = Assignment(job="job", worker="r", epoch=top.epoch, round=99, deadline_s=9.0)
    said = below.handle([FromParent(order)], 3.0).messages
    assert [m.reason for m in said if isinstance(m, Declined)] == ["nothing new"]


def test_a_worker_cannot_speak_for_the_parent() -> None:
    top = root()
    below = joined(top)
    learn(top, below)
    forged: list[Any] = [
        Welcome(job="job", worker="r", journal_id="x", session=1, incarnation=9),
        Erase(job="job", worker="", request="all", owners=(owner_hash(KEY, "ann"),)),
    ]
    before = below._ledger.reader.uplink()
    below.handle(forged, 5.0)
    assert below._ledger.reader.uplink() == before
    assert below.reader.erasures() == []


# -- bad input ----------------------------------------------------------------------------------


def test_a_cycle_is_named_and_nothing_is_reported() -> None:
    first, second = region(name="a"), region(name="b")
    first.meet(second.path, second.schema_digest)
    second.meet(first.path, first.schema_digest)
    assert "has not reached the root" in first.problem
    assert "a cycle" in second.problem
    for one in (first, second):
        one.handle([announce("w", 0)], 1.0)
        assert not up(one.handle([update(1, 2, name="w", round=1)], 2.0))
        assert one.model.statistics == examples(2), "its workers are served"


def test_a_region_that_is_its_own_parent_is_a_cycle() -> None:
    one = region()
    one.meet(one.path, one.schema_digest)
    assert "a cycle" in one.problem


def test_a_parent_with_another_schema_gets_nothing() -> None:
    other = Server("job", lambda: NaiveBayes(4, ["a", "b"], feature_bound=1.0), Ledger(), RULES)
    below = region()
    below.meet(other.path, other.schema_digest)
    assert "the parent's learner or its settings differ" in below.problem
    assert not up(below.handle([announce("w", 0)], 1.0))
    top = root()
    below.meet(top.path, top.schema_digest)
    learn(top, below)
    assert top.model.statistics == examples(2), "nothing was lost"


def test_a_region_that_the_job_does_not_name_is_refused_by_name() -> None:
    top = root(None, "other")
    below = joined(top)
    learn(top, below)
    assert "add it to `regions`" in top.workers["r"].flag
    assert top.model.statistics.is_zero
    assert "add it to `regions`" in below.problem
    named = Server("job", bayes, top._ledger, root(None, "r").rules, Everyone())
    below.meet(named.path, named.schema_digest)
    exchange(named, below, now_s=100.0)
    assert named.model.statistics == examples(2)
    assert (named.workers["r"].flag, below.problem) == ("", "")


def test_two_regions_with_one_name_count_once_and_both_ends_say_so() -> None:
    top = root()
    first = joined(top)
    learn(top, first)
    second = region()
    second.meet(top.path, top.schema_digest)
    exchange(top, second, announce("v", 0))
    exchange(top, second, update(1, 5, name="v", round=1))
    assert top.model.statistics == examples(2), "the first one stays"
    assert "two ledgers use the name" in top.workers["r"].flag
    assert "knows another ledger" in second.problem
    learn(top, first, 2)
    assert top.model.statistics == examples(4)
    top.remove("r", 5.0)  # the first is lost
    assert top.model.statistics.is_zero
    second.meet(top.path, top.schema_digest)
    exchange(top, second, now_s=6.0)
    assert top.model.statistics == examples(5)


def test_a_region_that_returns_after_its_removal_counts_once() -> None:
    top = root()
    below = joined(top)
    learn(top, below)
    top.remove("r", 5.0)
    assert top.model.statistics.is_zero
    learn(top, below, 2)
    below.meet(top.path, top.schema_digest)
    exchange(top, below, now_s=6.0)
    assert top.model.statistics == examples(4)
    assert top.workers["r"].incarnation > 1


def test_the_erased_do_not_return_with_a_restored_region() -> None:
    """Its workers must have answered what published versions contain, before it reports again."""
    tree = Tree(3, ["a", "b"], workers=2)
    tree.network.loss = 0.0
    tree.run(100.0)
    backup = tree.copy("a")
    tree.erase("person 1")
    tree.run(200.0)
    tree.check()
    tree.down |= {"a/w0", "a/w1"}  # those who know of the erasure sleep
    tree.ledgers["a"] = backup
    tree.restart("a")
    tree.run(200.0)
    assert tree.nodes["a"].problem == "waits until all workers have answered erasures"
    assert tree.nodes[ROOT].model.digest() == tree.held("b").digest()
    tree.heal(300.0)
    tree.check()


def test_people_are_erased_at_the_root_only() -> None:
    with pytest.raises(BadInput, match="ask the root server"):
        region().erase("r", [b"x"], 0.0)


def test_a_call_that_fails_leaves_the_region_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    top = root()
    below = joined(top)
    below.handle([announce("w", 0)], 1.0)
    monkeypatch.setattr(Ledger, "thin_if_due", lambda _: 1 / 0)
    before = below._uplink.state
    with pytest.raises(ZeroDivisionError):
        below.handle([update(1, 2, name="w", round=1)], 2.0)
    assert below._uplink.state == before
    monkeypatch.undo()
    exchange(top, below, update(1, 2, name="w", round=1), now_s=3.0)
    assert top.model.statistics == examples(2)
