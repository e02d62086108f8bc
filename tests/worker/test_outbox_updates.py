"""The outbox: whatever becomes of an update that holds the erased, the sum is the same."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from dealfl.exact import Statistics
from dealfl.protocol import MAX_WITHDRAWN
from dealfl.protocol.messages import Update, Withdraw
from dealfl.worker import Journal
from dealfl.worker.outbox import Outbox
from tests.federation.parts import bayes, delta_of, examples


class Counter:
    """A server that counts updates or grants withdrawals, as it is told."""

    def __init__(self) -> None:
        self.journal = Journal(journal_id="mark")
        self.outbox = Outbox(self.journal, "job", "w", 10.0, bayes().count_records)
        self.journal.state.incarnation = 1
        self.received: dict[int, Statistics | None] = {}  # None: withdrawn
        self.now_s = 0.0

    def send(self) -> list[Update | Withdraw]:
        self.now_s += 11.0
        return self.outbox.take_due(self.now_s)

    def count(self, message: Update) -> None:
        assert self.received.setdefault(message.sequence, delta_of(message)) is not None
        self.outbox.settle_counted(message.sequence, self.now_s)

    def judge(self, message: Withdraw, *, arrived: bool, delta: Statistics) -> None:
        """Say what became of an update: it had arrived before, or never will count."""
        if arrived:
            self.received.setdefault(message.sequence, delta)
            self.outbox.settle_counted(message.sequence, self.now_s)
        else:
            self.received.setdefault(message.sequence, None)
            self.outbox.settle_withdrawn(message.sequence, self.now_s)

    def settle(self) -> Statistics:
        """Count all that is left; return the sum, in which no number may be missing."""
        for _ in range(5):
            for message in self.send():
                assert isinstance(message, Update)
                self.count(message)
        assert not self.journal.outgoing
        assert sorted(self.received) == list(range(1, len(self.received) + 1)), "a gap"
        total = Statistics.zero(bayes().schema)
        for delta in self.received.values():
            total = total + delta if delta is not None else total
        return total


def test_what_was_never_handed_over_is_made_again() -> None:
    counter = Counter()
    counter.outbox.post(examples(3).to_bytes(), 5.0)
    counter.outbox.post(examples(2).to_bytes(), 6.0)
    counter.outbox.erase(-examples(1), 0.0)
    first, second = counter.send()
    assert isinstance(first, Update)
    assert isinstance(second, Update)
    assert delta_of(first) == examples(4), "no update with the erased in it ever leaves"
    assert delta_of(second).is_zero
    counter.count(first)
    counter.count(second)
    assert counter.settle() == examples(4)


@pytest.mark.parametrize("fates", list(product([True, False], repeat=3)))
def test_withdrawn_or_counted_the_sum_is_the_same(fates: tuple[bool, ...]) -> None:
    counter = Counter()
    deltas = {n: examples(n + 1) for n in range(1, 4)}
    for delta in deltas.values():
        counter.outbox.post(delta.to_bytes(), 0.0)
    assert len(counter.send()) == 3
    counter.outbox.erase(-examples(2), counter.now_s)
    asked = counter.send()
    assert [type(message) for message in asked] == [Withdraw] * 3, "the rest waits for verdicts"
    for message, arrived in zip(asked, fates, strict=True):
        assert isinstance(message, Withdraw)
        counter.judge(message, arrived=arrived, delta=deltas[message.sequence])
    assert counter.settle() == examples(2 + 3 + 4 - 2)


@pytest.mark.parametrize("fates", list(product([True, False], repeat=2)))
def test_several_erasures_in_a_row_end_in_the_same_sum(fates: tuple[bool, ...]) -> None:
    counter = Counter()
    deltas = {1: examples(5), 2: examples(4)}
    for delta in deltas.values():
        counter.outbox.post(delta.to_bytes(), 0.0)
    counter.send()
    counter.outbox.erase(-examples(1), counter.now_s)
    counter.outbox.post(examples(3).to_bytes(), counter.now_s)  # trained again in between
    counter.outbox.erase(-examples(2), counter.now_s)
    for message in counter.send():
        if isinstance(message, Update):
            assert delta_of(message).is_zero, "nothing is said while a verdict is missing"
            counter.count(message)
        else:
            arrived = fates[message.sequence - 1]
            counter.judge(message, arrived=arrived, delta=deltas[message.sequence])
    assert counter.settle() == examples(5 + 4 + 3 - 3)


def test_nothing_leaves_before_every_verdict_is_there() -> None:
    counter = Counter()
    for count in (3, 4):
        counter.outbox.post(examples(count).to_bytes(), 0.0)
    counter.send()
    counter.outbox.erase(-examples(1), counter.now_s)
    first, second = counter.send()
    assert isinstance(first, Withdraw)
    assert isinstance(second, Withdraw)
    counter.judge(first, arrived=False, delta=examples(3))
    assert counter.send() == [second], "what replaces both waits for the other one"
    counter.judge(second, arrived=False, delta=examples(4))
    (kept,) = counter.send()
    assert isinstance(kept, Update)
    assert delta_of(kept) == examples(6)


def test_a_correction_claims_no_training() -> None:
    counter = Counter()
    counter.outbox.erase(-examples(1), 0.0)
    (kept,) = counter.send()
    assert isinstance(kept, Update)
    assert (kept.learned, kept.evicted, kept.operations, kept.alarmed) == (0, 0, 0, False)
    assert (kept.elapsed_s, kept.energy_j, kept.round) == (0.0, 0.0, None)


def test_a_verdict_that_is_repeated_changes_nothing() -> None:
    counter = Counter()
    counter.outbox.post(examples(5).to_bytes(), 0.0)
    counter.send()
    counter.outbox.erase(-examples(1), counter.now_s)
    (message,) = counter.send()
    assert isinstance(message, Withdraw)
    for _ in range(3):
        counter.judge(message, arrived=False, delta=examples(5))
    assert counter.settle() == examples(4)


def test_an_erasure_of_nothing_with_an_empty_outbox_sends_nothing() -> None:
    counter = Counter()
    counter.outbox.erase(Statistics.zero(bayes().schema), 0.0)
    assert not counter.send()


def test_an_update_is_sent_until_its_receipt_arrives() -> None:
    counter = Counter()
    counter.outbox.post(examples(1).to_bytes(), 0.0)
    sent = [counter.send() for _ in range(3)]
    assert all(messages == sent[0] for messages in sent)
    assert not counter.outbox.take_due(counter.now_s + 9.0), "not before its time"
    counter.outbox.settle_counted(1, counter.now_s)
    assert not counter.send()


def test_memory_holds_no_update_that_was_sent() -> None:
    """A server can be away for days."""
    counter = Counter()
    counter.outbox.post(examples(1).to_bytes(), 0.0)
    with counter.journal.transaction():
        counter.outbox.post(examples(2).to_bytes(), 1e9)
        first, *_ = counter.outbox.take_due(counter.now_s)
    assert [row.update is None for row in counter.journal.outgoing.values()] == [True, False]
    assert counter.journal.read_update(1) == first


def test_in_a_new_incarnation_nothing_of_the_old_one_is_sent() -> None:
    counter = Counter()
    counter.outbox.post(examples(1).to_bytes(), 0.0)
    counter.outbox.restart(2)
    assert not counter.send()
    again = counter.outbox.post(examples(2).to_bytes(), 0.0)
    assert (again.incarnation, again.sequence) == (2, 1)


# -- when the journal is compacted ----------------------------------------------------------------


class Compacted:
    """An outbox in a file, and how often the file was compacted since the last look."""

    def __init__(self, path: Path) -> None:
        self.journal, self.times, self.now_s = Journal(path / "j.db"), 0, 0.0
        self.outbox = Outbox(self.journal, "job", "w", 10.0, bayes().count_records)
        compact = self.journal.compact

        def counted() -> bool:
            self.times += 1
            return compact()

        self.journal.compact = counted  # type: ignore[method-assign]

    def do(self, *calls: Callable[[], object]) -> int:
        """Make changes in one transaction; return how often the file is compacted after it."""
        self.now_s += 1.0
        with self.journal.transaction():
            for call in calls:
                call()
        self.times = 0
        self.journal.compact_if_due(self.now_s)
        return self.times

    def post(self) -> int:
        body = examples(1).to_bytes()
        return self.do(
            lambda: self.outbox.post(body, self.now_s), lambda: self.outbox.take_due(self.now_s)
        )

    def receipt(self, sequence: int) -> int:
        return self.do(lambda: self.outbox.settle_counted(sequence, self.now_s))

    def erase(self) -> int:
        return self.do(
            lambda: self.outbox.erase(-examples(1), self.now_s), self.outbox.compact_when_settled
        )


def test_a_journal_is_compacted_after_an_erasure_and_after_the_last_receipt(
    tmp_path: Path,
) -> None:
    one = Compacted(tmp_path)
    assert one.post() == 0
    assert one.receipt(1) == 1, "a file that never was is compacted by the first deletion"
    assert one.post() == 0
    assert one.receipt(2) == 0, "nobody was erased"
    assert one.erase() == 1
    assert one.post() == 0
    assert one.receipt(4) == 0, "the third is under way"
    assert one.receipt(3) == 1
    assert one.post() == 0
    assert one.receipt(5) == 0, "nothing of the erased is left"
    assert one.receipt(5) == 0, "nor in a repetition"
    one.journal.close()


def test_also_the_first_update_of_all_can_hold_the_erased(tmp_path: Path) -> None:
    one = Compacted(tmp_path)
    one.do(lambda: one.outbox.post(examples(2).to_bytes(), 1e9))
    assert one.erase() == 1
    assert one.receipt(1) == 1
    one.journal.close()


def test_a_withdrawn_update_is_compacted_away_at_once_and_its_successor_later(
    tmp_path: Path,
) -> None:
    one = Compacted(tmp_path)
    one.post()
    assert one.erase() == 1
    assert one.do(lambda: one.outbox.settle_withdrawn(1, one.now_s)) == 1
    assert one.receipt(2) == 1
    one.journal.close()


def test_a_verdict_about_an_update_that_was_not_sent_changes_nothing() -> None:
    """An earlier process on the same journal may have asked, before a backup was restored."""
    counter = Counter()
    counter.outbox.post(examples(5).to_bytes(), 0.0)
    counter.outbox.settle_withdrawn(1, 1.0)
    assert list(counter.journal.outgoing) == [1]
    assert counter.settle() == examples(5)


def test_a_withdrawal_names_the_update_that_contains_the_rest() -> None:
    counter = Counter()
    counter.outbox.post(examples(5).to_bytes(), 0.0)
    counter.send()
    counter.outbox.erase(-examples(1), counter.now_s)
    (message,) = counter.send()
    assert isinstance(message, Withdraw)
    assert message.successor == 2


def test_the_last_withdrawn_updates_are_the_highest_in_whatever_order_verdicts_arrive() -> None:
    """The server compares all from the lowest of them on."""
    counter, count = Counter(), MAX_WITHDRAWN + 2
    for _ in range(count):
        counter.outbox.post(examples(1).to_bytes(), 0.0)
        counter.send()
    for number in (3, 1, *range(4, count + 1)):
        counter.outbox.settle_withdrawn(number, counter.now_s)
    assert counter.journal.state.withdrawn == tuple(range(3, count + 1))
    counter.outbox.settle_withdrawn(2, counter.now_s)
    assert counter.journal.state.withdrawn == tuple(range(3, count + 1))
