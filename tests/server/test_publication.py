"""A version a round: late updates count at once, and are published with the next or in time."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dealfl.errors import WriteFailed
from dealfl.learners import Neighbors, Statistics
from dealfl.protocol.messages import Erase, Fetch, Message, Published
from dealfl.server import Ledger, Server
from dealfl.settings import Document
from dealfl.simulate import read_fleet, run_fleet
from tests.federation.parts import announce, examples, joined, server, update

FLEET = """
[job]
dataset = "digits"
learner = "naive_bayes"
rounds = 5
workers_per_round = 5
[[devices]]
count = 9
phone = "honor"
[data]
rows = 150
[arrival]
pattern = "each_round"
"""


def digests(messages: tuple[Message, ...]) -> list[str]:
    return [message.digest for message in messages if isinstance(message, Published)]


def after_one_round(ledger: Ledger | None = None) -> Server:
    """Return a server that closed its first round at 1 s by v's reply; w's is still missing."""
    one = joined("v", "w", "x", ledger=ledger, rounds=1, publish_every_s=100.0)
    messages = [update(1, name="v", round=1), update(1, name="w", round=1)]
    assert len(digests(one.handle(messages, 1.0).messages)) == 1
    return one


def test_a_late_update_counts_at_once_and_is_published_in_time() -> None:
    one = after_one_round()
    late = one.handle([update(1, name="x", round=1)], 2.0)
    assert one.model.statistics == examples(3), "it counts"
    assert digests(late.messages) == []
    assert late.wake_at_s == 101.0
    assert examples(3).digest() not in digests(one.handle([], 100.9).messages)
    assert digests(one.handle([], 101.0).messages) == [examples(3).digest()]
    assert one.handle([], 300.0).wake_at_s is None, "everything is published"


def test_a_late_update_is_published_with_the_next_round() -> None:
    one = joined("v", "w", "x", publish_every_s=100.0, min_workers=3)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    assert digests(one.handle([update(1, name="x", round=1)], 2.0).messages) == []
    one.handle([announce(name) for name in "vwx"], 3.0)
    replies = [update(2, name="v", round=2), update(2, name="w", round=2)]
    assert digests(one.handle(replies, 4.0).messages) == [examples(5).digest()]


def test_a_published_neighbours_model_holds_no_small_bucket() -> None:
    def make() -> Neighbors:
        return Neighbors(3, ["a", "b"], feature_bound=1.0, min_bucket=7)

    rng = np.random.default_rng(0)
    delta = make().learn(rng.uniform(-1, 1, (40, 3)), rng.choice(["a", "b"], 40))
    one = joined(make=make)
    sent = one.handle([update(1, 40, delta=delta, round=1)], 1.0).messages
    (version,) = [message for message in sent if isinstance(message, Published)]
    votes = Statistics.from_bytes(version.statistics)["votes"]
    sizes = np.bincount(np.unique(votes.indices // 2, return_inverse=True)[1], votes.values.low)
    assert sizes.min() >= 7
    assert sizes.sum() == 16 * 40
    assert one.model.statistics == delta
    assert version.digest == delta.digest()  # that of the exact statistics


def test_a_restart_publishes_at_the_same_time() -> None:
    ledger = Ledger()
    one = after_one_round(ledger)
    one.handle([update(1, name="x", round=1)], 2.0)
    again = server(ledger, rounds=1, publish_every_s=100.0)
    assert digests(again.handle([], 50.0).messages) == [], "the last one cannot be repeated"
    assert digests(again.handle([], 101.0).messages) == [examples(3).digest()]


def test_an_erasure_of_nothing_is_shown_in_time_too() -> None:
    ledger = Ledger()
    one = after_one_round(ledger)
    (order,) = one.erase("r", [b"nobody"], 2.0).messages
    assert isinstance(order, Erase)
    forgot = [announce(name, erased=(order.after,), sequence=int(name != "x")) for name in "vwx"]
    assert one.handle(forgot, 3.0).wake_at_s == 101.0
    assert len(digests(one.handle([], 101.0).messages)) == 1
    last = ledger.reader.last_version()
    assert last is not None
    assert last.erased == 1


def test_a_version_that_was_committed_and_not_sent_is_sent_after_the_restart() -> None:
    ledger = Ledger()
    after_one_round(ledger)  # ... and the process ends before it has sent anything
    again = server(ledger, rounds=1)
    repeated = [m for m in again.handle([], 2.0).messages if isinstance(m, Published)]
    assert [(m.version, m.statistics) for m in repeated] == [(1, examples(2).to_bytes())]


def test_a_version_is_repeated_ever_less_often_until_it_is_delivered() -> None:
    one = after_one_round()
    sent = [s for s in range(2, 4000) if digests(one.handle([], float(s)).messages)]
    assert sent == [61, 181, 421, 901, 1861, 3781]
    one.handle([announce("v", epoch=one.epoch, version=1, digest=examples(2).digest())], 4000.0)
    assert not any(digests(one.handle([], 4000.0 + 100.0 * n).messages) for n in range(100))


def test_a_repeated_version_is_what_it_was_although_more_has_been_counted_since() -> None:
    one = joined("v", "w", "x", rounds=1, publish_every_s=1e9)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    one.handle([update(1, name="x", round=1)], 2.0)
    assert one.model.statistics == examples(3)
    assert digests(one.handle([], 90.0).messages) == [examples(2).digest()]


def test_a_clock_that_jumps_back_holds_no_version_back() -> None:
    one = after_one_round()
    jumped = one.handle([update(1, name="x", round=1)], -1e6)
    assert len(digests(jumped.messages)) == 1


def test_what_was_counted_between_rounds_is_in_no_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    one = after_one_round(ledger)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    late = update(1, name="x", round=1, delta=examples(7))
    one.handle([late], 2.0)
    files = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert files != before
    assert not any(late.delta in content for content in files.values())
    assert ledger.find_sum("x") == examples(7)


def test_a_fleet_publishes_one_version_a_round(tmp_path: Path) -> None:
    fleet = read_fleet(Document.parse(FLEET, "fleet.toml"))
    outcome = run_fleet(fleet, tmp_path / "ledger.db")
    assert outcome.updates > 3 * len(outcome.rounds), "many are late"
    last = Ledger(tmp_path / "ledger.db").reader.last_version()
    assert last is not None
    assert len(outcome.rounds) <= last.number <= len(outcome.rounds) + 1


class FailingCommits(sqlite3.Connection):
    """Fails when the disk is full, at the last of the next `left` commits."""

    left = 0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and self.left:
            self.left -= 1
            if not self.left:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
        return super().execute(sql, *values)


def test_a_version_after_a_failed_commit_has_the_statistics_of_its_own_state() -> None:
    made: list[FailingCommits] = []

    def connect(path: str, **options: Any) -> sqlite3.Connection:
        made.append(sqlite3.connect(path, factory=FailingCommits, **options))
        return made[-1]

    one = joined("v", "w", "x", ledger=Ledger(connect=connect), publish_every_s=0.0)
    one.handle([update(1, 3, name=name, round=1) for name in "vwx"], 1.0)
    made[-1].left = 2  # the removal is stored, the version without x is not
    with pytest.raises(WriteFailed):
        one.remove("x", 2.0)
    fetch = Fetch(job="job", worker="v", epoch=one.epoch, version=1)
    sent = one.handle([update(2, 5, name="v")], 3.0).messages
    made[-1].left = 1
    with pytest.raises(WriteFailed):
        one.handle([fetch], 4.0)
    sent += one.handle([fetch], 5.0).messages
    versions = [message for message in sent if isinstance(message, Published)]
    assert [(m.version, m.digest) for m in versions] == 2 * [(2, examples(11).digest())]
    assert [m.statistics for m in versions] == 2 * [examples(11).to_bytes()]


def test_what_counts_after_the_last_round_is_published_once_when_the_job_ends() -> None:
    one = after_one_round()
    one.handle([update(1, name="x", round=1)], 2.0)
    for now_s in (3.0, 4.0):
        one.publish_last(now_s)
        version = one.reader.last_version()
        assert version is not None
        assert (version.number, version.digest) == (2, one.model.digest())


def test_a_version_is_not_repeated_after_a_start_if_something_has_counted_since() -> None:
    ledger = Ledger()
    after_one_round(ledger).handle([update(1, name="x", round=1)], 2.0)
    again = server(ledger, rounds=1, publish_every_s=100.0)
    assert again._rounds.publication.repeat(3.0) == []
    assert digests(again.handle([], 101.0).messages) == [examples(3).digest()]
