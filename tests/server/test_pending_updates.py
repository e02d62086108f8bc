"""Updates that wait: a bounded number behind a gap; those that do not fit into the total."""

import hashlib
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from dealfl.exact import Statistics
from dealfl.learners import NaiveBayes, statistics_of
from dealfl.protocol.messages import Receipt, Verdict, Withdraw
from dealfl.server import Ledger
from dealfl.worker import Record
from tests.federation.parts import Connect, examples, joined, kinds, row, server, update


def fine() -> NaiveBayes:
    return NaiveBayes(1, ["a", "b"], feature_bound=1.0, fraction_bits=30)


def many(power: int, target: str = "a") -> Statistics:
    """Return the statistics of 2ⁿ examples; 2³³ of them are more than 64 bits hold."""
    found, _ = statistics_of(fine, [Record(1, b"owner", row(1.0, target=target))])
    for _ in range(power):
        found = found + found
    return found


LARGE: dict[str, Any] = {"make": fine, "max_examples": 10**9}


@pytest.fixture(autouse=True, params=["small", "large"])
def deltas(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with deltas that are written at once, and at the end of a transaction."""
    if request.param == "large":
        monkeypatch.setattr("dealfl.server.ledger._LARGE", 1)


def test_an_overflow_of_the_total_blames_nobody_and_names_the_largest_sum() -> None:
    ledger = Ledger()
    one = joined("full", "other", ledger=ledger, **LARGE)
    base = many(32) + many(31) + many(30) + many(29)
    one.start_from(base)
    one.handle([update(1, delta=many(29), name="full")], 1.0)
    one.handle([update(1, delta=many(3, "b"), name="other")], 1.0)
    one.handle([], 500.0)
    row_ = one.workers["full"]
    assert (row_.incarnation, row_.counted) == (1, 0)
    assert row_.flag == (
        "held back: the total is full; the largest sum is that of the base of the job"
    )
    assert one.workers["other"].counted == 1
    assert one.model.statistics == base + many(3, "b")
    assert server(ledger, **LARGE).model.statistics == base + many(3, "b")


def test_what_was_held_back_counts_when_the_base_becomes_smaller() -> None:
    one = joined("full", rounds=1, **LARGE)
    one.start_from(many(32) + many(31) + many(30) + many(29))
    one.handle([update(1, delta=many(29), name="full", round=1)], 1.0)
    assert one.workers["full"].counted == 0
    one.handle([], 2.0)
    one.start_from(many(3))
    one.handle([], 3.0)
    assert one.model.statistics == many(3) + many(29)


def test_large_deltas_wait_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dealfl.server.aggregation._KEPT_BYTES", 1)
    one = joined("full", rounds=1, **LARGE)
    one.handle([update(1, delta=many(3), name="full", round=1)], 1.0)
    assert one.model.statistics == many(3)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_held_back_counts_when_it_fits(restarted: bool) -> None:
    ledger, names = Ledger(), [f"w{number:02}" for number in range(16)]
    one = joined(*names, ledger=ledger, **LARGE)
    more = {name: many(28) if name == "w05" else -many(0) for name in names}
    one.handle([update(1, delta=many(29) + more[name], name=name) for name in names], 1.0)
    one.handle([], 500.0)
    held = [name for name in names if not one.workers[name].counted]
    assert held == ["w15"]
    assert one.workers["w15"].flag.endswith("the largest sum is that of w05")
    if restarted:
        one = server(ledger, **LARGE)
    one.remove("w05", 501.0)
    one.handle([], 502.0)
    assert one.workers["w15"].counted == 1
    one.handle([], 1000.0)
    assert server(ledger, **LARGE).model.digest() == one.model.digest()


def test_a_bounded_number_of_updates_is_stored_after_a_gap() -> None:
    ledger = Ledger()
    one = joined("w", "honest", ledger=ledger)
    later = [update(number, name="w") for number in range(2, 402)]
    stored = [m.sequence for m in one.handle(later, 1.0).messages if isinstance(m, Receipt)]
    assert stored == list(range(2, 66))
    assert one.workers["w"].flag == "an update is missing; later ones are not stored"
    again = [update(1, name="w"), *later]
    got = [m.sequence for m in one.handle(again, 2.0).messages if isinstance(m, Receipt)]
    assert got == list(range(1, 402)), "all count once the first is there"
    one.handle([], 500.0)
    assert one.workers["w"].counted == 401
    assert one.model.statistics == examples(401)


def test_a_bounded_number_of_withdrawals_is_stored_after_a_gap() -> None:
    one = joined("w")
    later = [
        Withdraw(job="job", worker="w", incarnation=1, sequence=number)
        for number in (2**53, *range(2, 402))
    ]
    stored = [m.sequence for m in one.handle(later, 1.0).messages if isinstance(m, Verdict)]
    assert stored == [2**53, *range(2, 65)]
    assert one.workers["w"].flag == "an update is missing; later ones are not stored"
    one.handle([update(1, name="w"), *later], 2.0)
    one.handle([], 500.0)
    assert one.workers["w"].counted == 401
    assert one.model.statistics == examples(1)


def test_a_fold_reads_only_what_it_folds() -> None:
    ledger = Ledger()
    one = joined("w", "honest", ledger=ledger)
    one.handle([update(number, name="w") for number in range(2, 30)], 1.0)
    ledger.execute("UPDATE updates SET delta = x'00' WHERE worker = 'w'")  # would raise
    one.handle([update(1, 2, name="honest", round=1)], 2.0)
    one.handle([], 500.0)
    assert one.model.statistics == examples(2)
    assert not one.workers["w"].flag


def test_a_restarted_server_counts_what_the_earlier_one_stored() -> None:
    ledger = Ledger()
    joined("w", "honest", ledger=ledger).handle([update(1, 2), update(3, 4)], 1.0)
    again = server(ledger)
    again.handle([], 500.0)
    assert again.model.statistics == examples(2)
    again.handle([update(2, 1)], 501.0)
    again.handle([], 1000.0)
    assert again.model.statistics == examples(7)


def test_nothing_is_folded_past_a_withdrawn_update_before_its_successor() -> None:
    """The second update removes what the withdrawn one added, so that alone it is impossible."""
    one = joined("w", "honest")
    withdraw = Withdraw(job="job", worker="w", incarnation=1, sequence=1, successor=3)
    one.handle([withdraw, update(2, delta=-examples(3))], 1.0)
    one.handle([], 500.0)
    row = one.workers["w"]
    assert (row.incarnation, row.counted, row.flag) == (1, 0, "")
    one.handle([update(3, 5)], 501.0)
    one.handle([], 1000.0)
    assert one.model.statistics == examples(2)
    assert one.workers["w"].counted == 3


@pytest.mark.parametrize("limit", ["max_examples", "max_cells"])
def test_a_sum_that_just_reaches_a_limit_counts(limit: str) -> None:
    rules: list[dict[str, Any]] = [{limit: most} for most in (3, 2)]  # a class, two features
    one = joined(**rules[0])
    one.handle([update(1, 3, round=1)], 1.0)
    assert one.workers["w"].counted == 1
    other = joined(**rules[1])
    other.handle([update(1, 3, round=1)], 1.0)
    assert other.workers["w"].flag == f"diverged: a worker has 3 of {limit} = 2"


def test_a_large_delta_that_counts_at_once_is_never_written() -> None:
    connect = Connect()
    one = joined("w", ledger=Ledger(connect=connect), rounds=1)
    statements: list[str] = []
    connect.db.set_trace_callback(statements.append)
    one.handle([update(1, 3, round=1)], 1.0)
    written = [text for text in statements if text.startswith("UPDATE updates SET delta = x")]
    assert not written
    assert one.model.statistics == examples(3)


def deltas_in(ledger: Ledger) -> list[bytes]:
    return [delta for (delta,) in ledger.execute("SELECT delta FROM updates ORDER BY sequence")]


def test_what_a_failed_transaction_stored_is_not_written_later() -> None:
    ledger, sent = Ledger(), update(1, 9)
    with suppress(ZeroDivisionError), ledger.transaction():
        ledger.updates.put(sent)
        raise ZeroDivisionError
    with ledger.transaction():
        row = ("w", 1, 1, b"", b"", 0, None, 0)  # counts already
        ledger.execute("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    assert deltas_in(ledger) == [None]


def test_a_message_that_was_undone_leaves_no_delta() -> None:
    ledger, sent = Ledger(), update(1, 2)
    with ledger.transaction():
        for number in (1, 2):
            with suppress(ZeroDivisionError), ledger.savepoint():
                ledger.updates.put(update(number, 9))
                raise ZeroDivisionError
        ledger.updates.put(sent)
        ledger.updates.put_withdrawn("w", 1, 2, 3)
    assert deltas_in(ledger) == [sent.delta, b""]


def test_what_does_not_count_yet_is_stored_with_what_does() -> None:
    ledger = Ledger()
    joined("w", ledger=ledger).handle([update(1, 2, round=1), update(3, 4)], 1.0)
    again = server(ledger)
    assert again.model.statistics == examples(2)
    again.handle([update(2, 1)], 501.0)
    again.handle([], 1000.0)
    assert again.model.statistics == examples(7)


def test_deltas_of_an_earlier_incarnation_count_in_no_later_one() -> None:
    """Both incarnations have an update 2; that of the second arrives before its first."""
    one = joined("w", "other")
    one.handle([update(1, 3, round=1), update(2, 4)], 1.0)
    one.handle([update(1, 5, round=1)], 2.0)  # another update 1: the journal was restored
    assert one.workers["w"].incarnation == 2
    one.handle([update(2, 1, incarnation=2)], 3.0)
    one.handle([update(1, 7, incarnation=2)], 4.0)
    one.handle([], 500.0)
    assert one.workers["w"].counted == 2
    assert one.model.statistics == examples(8)


def test_unwritten_deltas_of_a_dropped_worker_are_gone_and_those_of_others_stay() -> None:
    ledger = Ledger()
    with ledger.transaction():
        ledger.updates.put(update(1, 2))
        ledger.updates.put(update(1, 3, name="other"))
        ledger.updates.drop("w")
        row = ("w", 1, 1, b"", b"", 0, None, 0)  # of the next incarnation, counted
        ledger.execute("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    assert sorted(map(str, deltas_in(ledger))) == sorted(
        [str(None), str(update(1, 3, name="other").delta)]
    )


def test_no_byte_of_an_update_is_left_when_all_are_dropped(tmp_path: Path) -> None:
    delta = update(1, 2).delta
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        with ledger.transaction():
            ledger.updates.put(update(1, 2))
        assert any(delta in file.read_bytes() for file in tmp_path.iterdir())
        with ledger.transaction():
            ledger.updates.drop_all()
        assert not any(delta in file.read_bytes() for file in tmp_path.iterdir())


def test_unwritten_deltas_are_gone_when_all_are_dropped() -> None:
    ledger = Ledger()
    with ledger.transaction():
        ledger.updates.put(update(1, 2))
        ledger.updates.drop_all()
        row = ("w", 1, 1, b"", b"", 0, None, 0)  # of the next incarnation, counted
        ledger.execute("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    assert deltas_in(ledger) == [None]


def test_a_total_that_lags_when_the_server_ends_is_written_whole_by_the_next(
    tmp_path: Path,
) -> None:
    path, rules = tmp_path / "ledger.db", {"publish_every_s": 100.0}
    with closing(Ledger(path)) as ledger:
        one = joined("w", "other", ledger=ledger, **rules)
        one.handle([update(1, 3, round=1), update(1, 2, name="other", round=1)], 1.0)
        one.handle([update(2, 4)], 2.0)
        one.handle([], 3.0)
        assert ledger.state.total_lags
        assert one.model.statistics == examples(9)
    with closing(Ledger(path)) as ledger:
        server(ledger, **rules).handle([], 500.0)
        assert not ledger.state.total_lags
        assert ledger.reader.total() == examples(9)


def test_counted_deltas_are_dropped_of_their_incarnation_only() -> None:
    ledger, later = Ledger(), update(1, 4, incarnation=2)
    with ledger.transaction():
        ledger.updates.put(update(1, 2))
        ledger.updates.put(later)
        ledger.updates.delete_deltas("w", 1, 1)
    assert deltas_in(ledger) == [None, later.delta]


def test_a_withdrawal_of_another_update_with_the_same_sequence_is_fatal() -> None:
    one = joined("w", "other")
    one.handle([update(1, 3, round=1)], 1.0)
    wrong = hashlib.sha256(examples(4).to_bytes()).digest()
    key = {"job": "job", "worker": "w", "incarnation": 1, "sequence": 1}
    replies = one.handle([Withdraw(**key, hash=wrong)], 2.0).messages  # type: ignore[arg-type]
    assert "Refusal" in kinds(replies)
    assert one.workers["w"].incarnation == 2
