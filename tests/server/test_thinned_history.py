"""A ledger of many rounds: old history becomes sums; exactness, erasures and status stay."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from dealfl.protocol import Message, Published, Refusal, Update, Withdraw
from dealfl.server import Ledger, LedgerReader, PastRounds, Server
from dealfl.worker import Journal, Worker
from tests.federation.parts import (
    announce,
    examples,
    joined,
    learned_statistics,
    row,
    server,
    update,
    worker,
)

KEPT = 16


def talk(one: Server, phone: Worker, now_s: float) -> list[Message]:
    """Exchange messages until nobody has any; return what the worker sent."""
    sent: list[Message] = []
    step = phone.handle((), now_s)
    while step.messages:
        sent += step.messages
        replies = one.handle(step.messages, now_s).messages
        for version in [message for message in replies if isinstance(message, Published)]:
            one.confirm(version.version)
        step = phone.handle(replies, now_s)
    return sent


def play(kept: int, rounds: int, path: Path | str = ":memory:") -> tuple[Server, Ledger, Journal]:
    ledger = Ledger(path, kept_rounds=kept)
    one = server(ledger, rounds=10**6, publish_every_s=0.0)
    journal = Journal(journal_id="mark")
    phone = worker(journal=journal, forget_fraction="0.5")
    for number in range(rounds):
        phone.ingest([(f"person {number % 7}", row(0.0, 0.5, 1.0))] * 2)
        talk(one, phone, float(number))
        if number in (3, 40):
            one.erase(f"r{number}", [bytes([number]) * 32], float(number))
    return one, ledger, journal


def count(ledger: Ledger, table: str) -> int:
    return int(ledger.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def figures(reader: LedgerReader) -> object:
    """Return all that status, workers and certificates show of the history."""
    rounds = [(old.reason, old.rounds, old.duration_s) for old in reader.past_rounds()]
    rounds += [(one.reason, 1, one.duration_s) for one in reader.closed_rounds()]
    worker_figures = [
        (one.selected, one.replied, one.declined, round(one.reward, 9), one.energy_j)
        for one in reader.workers()
    ]
    replies = reader.replies()
    assert replies.mean_reward is not None
    return (
        reader.count_closed(),
        sum(number for _, number, _ in rounds),
        sum(duration_s for _, _, duration_s in rounds),
        replace(replies, mean_reward=round(replies.mean_reward, 9)),  # floats in another order
        worker_figures,
        reader.last_version(),
        reader.count_erasures(),
        [reader.versions_around(name) for name in ("r3", "r40")],
    )


def test_a_thinned_history_shows_the_same_figures() -> None:
    whole, everything, journal = play(0, 100)
    thinned, ledger, _ = play(KEPT, 100)
    assert figures(thinned.reader) == figures(whole.reader)
    assert thinned.model.digest() == whole.model.digest()
    assert thinned.model.statistics == learned_statistics(journal)
    for table in ("rounds", "selections", "updates", "versions"):
        assert count(everything, table) >= 100
        assert count(ledger, table) <= KEPT + KEPT // 8 + 6, table


@pytest.mark.parametrize(
    ("duration_s", "within_s"),
    [(0.0, 1.0), (1.0, 1.0), (5.0, 5.0), (10.0, 10.0), (30.0, 30.0), (60.0, 60.0), (60.5, 120.0),
     (120.0, 120.0), (300.0, 300.0), (600.0, 600.0), (3600.0, 3600.0), (3600.5, math.inf)],
)  # fmt: skip
def test_an_old_round_stays_in_its_bucket_of_durations(duration_s: float, within_s: float) -> None:
    ledger = Ledger()
    ledger.rounds.open(1, 1000.0, 9999.0, {}, eligible=0)
    ledger.rounds.close(1, 1000.0 + duration_s, "majority", "")
    ledger.rounds.thin(1)
    assert ledger.reader.past_rounds() == [PastRounds("majority", within_s, 1, duration_s)]


def test_a_short_history_is_thinned_after_every_round() -> None:
    _, ledger, _ = play(4, 20)
    assert count(ledger, "rounds") <= 5


def test_withdrawals_are_thinned_as_updates_are_and_never_count_later() -> None:
    ledger = Ledger(kept_rounds=KEPT)
    one = joined("w", "liar", ledger=ledger, rounds=10**6, publish_every_s=0.0)
    withdrawals = [
        Withdraw(job="job", worker="liar", incarnation=1, sequence=number + 1)
        for number in range(1_000)
    ]
    one.handle(withdrawals, 1.0)
    for number in range(4):
        one.handle([update(number + 1, name="w")], 10.0 + 100.0 * number)
        one.handle([announce("w", waiting=3)], 90.0 + 100.0 * number)
    assert one.workers["liar"].counted == 1_000
    assert count(ledger, "updates") <= KEPT + 4
    one.handle([update(5, count=7, name="liar")], 900.0)
    one.handle([], 1_500.0)
    assert one.model.statistics == examples(4)


def test_an_update_that_is_too_old_to_be_compared_never_counts_twice() -> None:
    one, ledger, journal = play(KEPT, 60)
    digest = one.model.digest()
    old = Update(
        job="job", worker="w", session=journal.state.session, incarnation=1, sequence=2,
        delta=one.model.statistics.to_bytes(), round=2,
    )  # fmt: skip
    assert ledger.updates.find("w", 1, 2) is None
    replies = one.handle([old], 100.0).messages
    assert "too old" in next(reply.reason for reply in replies if isinstance(reply, Refusal))
    talk(one, worker(journal=journal, forget_fraction="0.5"), 101.0)
    one.handle((), 200.0)
    assert one.workers["w"].incarnation == 2
    assert one.model.digest() == digest, "the worker has sent its full sum"


def test_a_worker_with_a_version_that_is_no_longer_listed_begins_no_new_epoch() -> None:
    one, ledger, journal = play(KEPT, 60)
    assert ledger.erasures.find_digest(10) is None
    assert ledger.erasures.find_digest(10**6) == ""
    state = journal.state
    message = announce(
        epoch=one.epoch, version=10, digest="d", session=state.session, sequence=state.sequence,
        journal_id=state.journal_id, terms=state.terms, erased=journal.reached,
    )  # fmt: skip
    epoch = one.epoch
    one.handle([message], 100.0)
    assert one.epoch == epoch


@pytest.mark.soak
def test_after_many_rounds_the_ledger_is_as_large_as_after_a_few(tmp_path: Path) -> None:
    _, few, _ = play(100, 1_000, tmp_path / "few.db")
    _, many, journal = play(100, 4_000, tmp_path / "many.db")
    assert many.size_bytes <= 1.2 * few.size_bytes
    assert journal.size_bytes < 1 << 20
