"""The total in the ledger follows when a round closes; until then the sums have what it lacks."""

from contextlib import suppress
from typing import Any

import pytest

from dealfl.learners import statistics_of
from dealfl.server import Ledger, Server, sums
from dealfl.worker import Record
from tests.federation.parts import (
    Connect,
    announce,
    bayes,
    examples,
    joined,
    row,
    server,
    update,
)
from tests.server.test_fulfilled_erasures import erase, forgot

SELDOM: dict[str, Any] = {"round_every_s": 1000.0, "publish_every_s": 1000.0}


def after_a_late_update(ledger: Ledger) -> Server:
    """Return a server that has counted an update between two rounds."""
    one = joined("v", "w", ledger=ledger, **SELDOM)
    one.handle([update(1, 3, name="v", round=1), update(1, 2, round=1)], 1.0)
    one.handle([update(2, 5, name="v")], 2.0)
    assert one.model.statistics == examples(10)
    return one


def test_a_late_update_waits_for_the_next_round_in_the_ledger_only() -> None:
    ledger = Ledger()
    one = after_a_late_update(ledger)
    assert one.workers["v"].counted == 2
    assert ledger.reader.total() == examples(5)
    one.handle([announce("v"), announce("w")], 1500.0)
    one.handle([update(2, 1, round=2), update(3, delta=-examples(2), name="v", round=2)], 1501.0)
    assert ledger.reader.total() == one.model.statistics == examples(9)


def test_a_server_that_was_killed_adds_the_sums_up() -> None:
    ledger = Ledger()
    after_a_late_update(ledger)
    again = server(ledger, **SELDOM)
    assert again.model.statistics == examples(10)
    again.handle([announce("v"), announce("w")], 1500.0)
    again.handle([update(2, 1, round=2), update(3, delta=-examples(8), name="v", round=2)], 1501.0)
    assert ledger.reader.total() == again.model.statistics


def test_cells_that_a_late_update_emptied_leave_the_ledger() -> None:
    connect = Connect()
    ledger = Ledger(connect=connect)
    one = joined("v", ledger=ledger, **SELDOM)
    one.handle([update(1, 3, name="v", round=1)], 1.0)
    one.handle([update(2, delta=-examples(3), name="v")], 2.0)
    again = server(ledger, **SELDOM)  # it has no entries that could mark a page
    again.drain()
    again.handle([], 3.0)
    query = "SELECT count(*) FROM pages WHERE owner = '*'"
    assert connect.db.execute(query).fetchone() == (0,)


@pytest.mark.parametrize("ends", ["drained", "published", "failed", "finished"])
def test_whatever_comes_next_the_total_is_written(ends: str) -> None:
    ledger = Ledger()
    one = after_a_late_update(ledger)
    if ends == "drained":
        one.drain()
    if ends == "failed":
        with suppress(ZeroDivisionError), ledger.transaction():
            raise ZeroDivisionError
        one.drain()
    if ends == "finished":
        one.rules = type(one.rules)(rounds=1)
    one.handle([], 1100.0 if ends == "published" else 3.0)
    assert ledger.reader.total() == examples(10)
    assert ledger.state.digest == one.model.digest()
    assert server(ledger, **SELDOM).model.statistics == examples(10)


def test_a_fulfilled_erasure_leaves_nobody_in_the_total() -> None:
    ledger = Ledger()
    one = joined("v", ledger=ledger, release_batch=9, **SELDOM)
    one.handle([update(1, 3, name="v", round=1)], 1.0)
    end = erase(one, "r", 2.0)
    one.handle([forgot("v", end, 2), update(2, delta=-examples(1), name="v")], 3.0)
    assert one.reader.last_version().erased == 0  # type: ignore[union-attr]
    assert ledger.reader.total() == examples(2)


def test_a_failed_transaction_leaves_no_trace_in_what_is_written_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It had taken pages out of the total, and had counted something after it."""
    monkeypatch.setattr(sums, "_PAGE", 1)
    ledger = Ledger()
    one = joined("v", "w", ledger=ledger, **SELDOM)
    only_w = statistics_of(bayes, [Record(1, b"ann", row(1.0, 0.0, 0.0, target="b"))])[0]
    one.handle([update(1, 3, name="v", round=1), update(1, delta=only_w, round=1)], 1.0)
    assert ledger.reader.total() == examples(3) + only_w

    def fail() -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(one, "_save", fail)
        with pytest.raises(OSError, match="full"):
            one.handle([update(1, 5), update(2, 5, name="v")], 2.0)
    one.remove("w", 3.0)
    assert ledger.reader.total() == examples(3)
    assert server(ledger, **SELDOM).model.statistics == examples(3)
