"""The worker: θ, schemes, histories, quarantine, erased owners, repeated and empty assignments."""

from fractions import Fraction
from typing import Any

import pytest

from dealfl.erasure import owner_hash
from dealfl.errors import BadInput
from dealfl.power import Training
from dealfl.protocol.messages import (
    Announce,
    Declined,
    Erase,
    Position,
    Receipt,
    Update,
    Welcome,
)
from dealfl.worker import SCHEMES, Cost, Journal, State, Worker
from tests.federation.parts import (
    KEY,
    FixedMeter,
    assignment,
    bayes,
    delta_of,
    item,
    kinds,
    learned_statistics,
    pagerank,
    row,
    updates,
    welcome,
    welcomed,
    worker,
)


def train(one: Worker, number: int, **other: Any) -> Update:
    """Let a worker train, and give it its receipt."""
    (sent,) = updates(one.handle([assignment(number, **other)], float(number)).messages)
    key: dict[str, Any] = {"session": sent.session, "incarnation": 1, "sequence": sent.sequence}
    one.handle([Receipt(job="job", worker="w", **key)], float(number))
    return sent


def some_rows(count: int, start: int = 0) -> list[tuple[str, bytes]]:
    numbers = range(start, start + count)
    return [
        (f"person {n}", row((n % 5) / 4, (n % 3) / 2, 1.0, target="ab"[n % 2])) for n in numbers
    ]


@pytest.mark.parametrize("theta", ["0", "0.02", "0.3", "1"])
def test_a_worker_evicts_exactly_theta_of_what_it_held_and_carries_the_rest(theta: str) -> None:
    journal = Journal()
    one = welcomed(journal=journal, forget_fraction=theta)
    held, due, evicted = 0, Fraction(0), 0
    for number in range(1, 40):
        one.ingest(some_rows(number % 4 + 1, 10 * number))
        sent = train(one, number)
        due += Fraction(theta) * held
        evicted += sent.evicted
        assert evicted == int(due)
        held += sent.learned - sent.evicted
        assert journal.count(State.LEARNED) == held
    if theta == "1":
        assert held == 39 % 4 + 1, "only what is new is kept"


def test_the_least_recently_used_go_first() -> None:
    journal = Journal()
    one = welcomed(journal=journal, forget_fraction="0.5")
    one.ingest(some_rows(4))
    train(one, 1)
    oldest = journal.records(State.LEARNED)[:2]
    journal.touch([oldest[0].id])  # read by a prediction
    one.ingest(some_rows(1, 50))
    train(one, 2)
    left = {record.id for record in journal.records(State.LEARNED)}
    assert oldest[0].id in left
    assert oldest[1].id not in left


def test_an_assignment_may_say_another_theta() -> None:
    one = welcomed(forget_fraction="0")
    one.ingest(some_rows(10))
    train(one, 1)
    one.ingest(some_rows(1, 50))
    assert train(one, 2, forget_fraction="0.5").evicted == 5
    one.ingest(some_rows(1, 60))
    assert train(one, 3).evicted == 0


@pytest.mark.parametrize("theta", ["-0.1", "1.1", "much", "nan", "1/0"])
def test_a_theta_that_is_no_fraction_is_refused(theta: str) -> None:
    with pytest.raises(BadInput, match="forget_fraction"):
        worker(forget_fraction=theta)


def test_new_interactions_replace_a_history_and_the_oldest_interactions_go() -> None:
    journal = Journal()
    one = welcomed(pagerank, journal, forget_fraction="0.5")
    one.ingest([("ann", item(1)), ("ann", item(2)), ("bob", item(1)), ("bob", item(5))])
    first = train(one, 1)
    one.ingest([("ann", item(3))])
    second = train(one, 2)
    bodies = [(r.owner == owner_hash(KEY, "ann"), r.body) for r in journal.records(State.LEARNED)]
    assert bodies == [(False, item(1)), (False, item(5)), (True, item(3))]
    assert delta_of(first) + delta_of(second) == learned_statistics(journal, pagerank)
    assert second.evicted == 2


@pytest.mark.parametrize("make", [bayes, pagerank])
@pytest.mark.parametrize("name", sorted(SCHEMES))
def test_the_updates_of_every_scheme_add_up_to_what_its_journal_says(make: Any, name: str) -> None:
    journal = Journal()
    one = welcomed(make, journal, scheme_name=name, forget_fraction="0.3")
    total = learned_statistics(journal, make)
    for number in range(1, 12):
        new = some_rows(3, 3 * number)
        if make is pagerank:
            new = [(f"person {n % 4}", item((n * number) % 12)) for n in range(3)]
        one.ingest(new)
        total = total + delta_of(train(one, number))
        assert total == learned_statistics(journal, make)


def test_scratch_and_change_give_the_same_delta_for_different_work() -> None:
    def trained(scheme: str, theta: str) -> list[Update]:
        one = welcomed(scheme_name=scheme, forget_fraction=theta)
        sent = []
        for number in range(1, 6):
            one.ingest(some_rows(20, 20 * number))
            sent.append(train(one, number))
        return sent

    for scratch, change, theta in [("original", "incremental", "0"), ("newfl", "deal", "1")]:
        slow, quick = trained(scratch, "0.02"), trained(change, theta)
        assert [update.delta for update in slow] == [update.delta for update in quick]
        assert slow[-1].operations != quick[-1].operations
    original, incremental = trained("original", "0.02"), trained("incremental", "0.02")
    assert original[-1].operations > 3 * incremental[-1].operations
    assert len({update.operations for update in incremental}) == 1, "O(new), never O(all)"


def test_what_cannot_be_learned_is_put_aside_with_its_reason_and_the_round_continues() -> None:
    journal = Journal()
    one = welcomed(journal=journal)
    bad = [("eve", row(9.0, 0.0, 0.0)), ("eve", row(0.0, 0.0, 0.0, target="unheard of"))]
    accepted = one.ingest([*some_rows(2), bad[0], *some_rows(1), bad[1]])
    assert (accepted.waiting, accepted.quarantined) == (3, 2)
    reasons = [reason for _, reason in journal.quarantined()]
    assert "outside [0, 1]" in reasons[0]
    assert reasons[1] == "its class is unknown"
    assert train(one, 1).learned == 3


def test_items_out_of_range_are_put_aside() -> None:
    one = welcomed(pagerank)
    accepted = one.ingest([("ann", item(3)), ("ann", item(12)), ("bob", item(-1))])
    assert (accepted.waiting, accepted.quarantined) == (1, 2)


def test_a_repeated_or_old_assignment_is_ignored() -> None:
    one = welcomed()
    one.ingest(some_rows(2))
    assert len(updates(one.handle([assignment(5), assignment(5)], 1.0).messages)) == 1
    one.ingest(some_rows(2, 10))
    assert not updates(one.handle([assignment(5), assignment(4)], 2.0).messages)


def test_with_nothing_waiting_a_worker_declines() -> None:
    messages = welcomed().handle([assignment(1)], 1.0).messages
    assert [m.reason for m in messages if isinstance(m, Declined)] == ["no waiting examples"]


def test_a_worker_that_was_not_welcomed_declines() -> None:
    one = worker()
    one.ingest(some_rows(2))
    messages = one.handle([assignment(1)], 1.0).messages
    assert [m.reason for m in messages if isinstance(m, Declined)] == ["not welcomed yet"]


def test_messages_for_others_are_ignored() -> None:
    one = welcomed()
    one.ingest(some_rows(2))
    assert not updates(one.handle([assignment(1, "another worker")], 1.0).messages)


def test_a_worker_is_not_silenced_by_a_clock_that_jumps_back() -> None:
    one = welcomed(announce_every_s=60.0)
    one.handle([], 1e9)
    assert "Announce" in kinds(one.handle([], 1000.0).messages)
    assert "Announce" not in kinds(one.handle([], 1030.0).messages)
    step = one.handle([], 1060.0)
    assert "Announce" in kinds(step.messages)
    assert step.wake_at_s == 1120.0


def test_an_update_leaves_when_the_training_is_over() -> None:
    one = welcomed(meter=FixedMeter(elapsed_s=20.0, energy_j=3.0))
    one.ingest(some_rows(2))
    step = one.handle([assignment(1)], 100.0)
    assert not updates(step.messages)
    assert [m.training for m in step.messages if isinstance(m, Announce)] == [True]
    assert step.wake_at_s == 120.0
    (sent,) = updates(one.handle([], 120.0).messages)
    assert (sent.elapsed_s, sent.energy_j, sent.round) == (20.0, 3.0, 1)


def test_in_a_new_incarnation_a_worker_says_everything_again_without_the_erased() -> None:
    journal = Journal()
    one = welcomed(journal=journal, forget_fraction="0")
    one.ingest(some_rows(4))
    train(one, 1)
    hashes, end = (owner_hash(KEY, "person 2"),), Position(1, b"chain")
    early = one.handle([welcome(journal, 2, erased=end)], 2.0)
    assert not updates(early.messages), "it has not forgotten everyone"
    part = Erase(job="job", worker="w", owners=hashes, after=end)
    step = one.handle([part, welcome(journal, 2, erased=end)], 2.0)
    (sent,) = updates(step.messages)
    assert (sent.incarnation, sent.sequence) == (2, 1)
    assert delta_of(sent) == learned_statistics(journal)
    assert journal.count(State.LEARNED) == 3


def test_a_restarted_worker_continues_where_it_was() -> None:
    journal = Journal()
    first = welcomed(journal=journal, forget_fraction="0.3")
    first.ingest(some_rows(4))
    total = delta_of(train(first, 1))
    for number in range(2, 8):
        again = worker(journal=journal, forget_fraction="0.3")
        again.ingest(some_rows(2, 10 * number))
        total = total + delta_of(train(again, number))
    assert total == learned_statistics(journal)
    forgotten, learned = 4 + 12 - journal.count(State.LEARNED), 4 + 12
    assert again.level_of_forgetness == forgotten / learned


def test_a_welcome_to_an_earlier_journal_is_not_for_this_one() -> None:
    one = worker(journal=Journal(journal_id="second"))
    one.handle([Welcome(job="job", worker="w", incarnation=1, journal_id="first")], 1.0)
    (said,) = [m for m in one.handle([], 100.0).messages if isinstance(m, Announce)]
    assert said.incarnation == 0, "it still asks for an incarnation"


def test_posting_the_full_sum_costs_what_computing_it_takes() -> None:
    class Recording(FixedMeter):
        def cost(self, training: Training) -> Cost:
            asked.append(training)
            return super().cost(training)

    asked: list[Training] = []
    journal = Journal()
    one = welcomed(journal=journal, forget_fraction="0", meter=Recording())
    one.ingest(some_rows(4))
    train(one, 1)
    asked.clear()
    one.handle([welcome(journal, 2)], 2.0)
    (said,) = asked
    assert said.learned_operations > 0
    assert (said.scratch_operations, said.wakes) == (said.learned_operations, False)
    (sent,) = map(journal.read_update, journal.outgoing)
    assert sent.operations == said.learned_operations
