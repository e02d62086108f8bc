"""A version a round: late updates count at once, and are published with the next or in time."""

from pathlib import Path

from dealfl.messages import Erased, Message, Published
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
    assert digests(one.handle([], 100.9).messages) == []
    assert digests(one.handle([], 101.0).messages) == [examples(3).digest()]
    assert one.handle([], 300.0).wake_at_s is None, "everything is published"


def test_a_late_update_is_published_with_the_next_round() -> None:
    one = joined("v", "w", "x", publish_every_s=100.0, min_workers=3)
    one.handle([update(1, name="v", round=1), update(1, name="w", round=1)], 1.0)
    assert digests(one.handle([update(1, name="x", round=1)], 2.0).messages) == []
    one.handle([announce(name) for name in "vwx"], 3.0)
    replies = [update(2, name="v", round=2), update(2, name="w", round=2)]
    assert digests(one.handle(replies, 4.0).messages) == [examples(5).digest()]


def test_a_restart_publishes_at_the_same_time() -> None:
    ledger = Ledger()
    one = after_one_round(ledger)
    one.handle([update(1, name="x", round=1)], 2.0)
    again = server(ledger, rounds=1, publish_every_s=100.0)
    assert digests(again.handle([], 50.0).messages) == []
    assert digests(again.handle([], 101.0).messages) == [examples(3).digest()]


def test_an_erasure_of_nothing_is_shown_in_time_too() -> None:
    ledger = Ledger()
    one = after_one_round(ledger)
    one.erase("r", [b"nobody"], 2.0)
    answers = [
        Erased(job="job", worker=name, incarnation=1, request="r", examples=0, sequence=0)
        for name in "vwx"
    ]
    assert one.handle(answers, 3.0).wake_at_s == 101.0
    assert len(ledger.reader.outstanding_erasures()) == 1
    assert len(digests(one.handle([], 101.0).messages)) == 1
    assert ledger.reader.outstanding_erasures() == []


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
    assert sum(content.count(late.delta) for content in files.values()) == 1, "the sum of x itself"


def test_a_fleet_publishes_one_version_a_round(tmp_path: Path) -> None:
    fleet = read_fleet(Document.parse(FLEET, "fleet.toml"))
    outcome = run_fleet(fleet, tmp_path / "ledger.db")
    assert outcome.updates > 3 * len(outcome.rounds), "many are late"
    last = Ledger(tmp_path / "ledger.db").reader.last_version()
    assert last is not None
    assert len(outcome.rounds) <= last.number <= len(outcome.rounds) + 1
