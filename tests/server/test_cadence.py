"""Fewer and fuller: rounds open at ticks, and nobody is woken for a single example."""

from pathlib import Path
from typing import Any

import pytest

from dealfl.errors import BadInput
from dealfl.server import Ledger, Rules
from tests.federation.parts import announce, joined, kinds, server, update
from tests.server.test_server_rounds import assigned


def test_rounds_open_no_more_often_than_agreed() -> None:
    one = joined("a", round_every_s=100.0)
    step = one.handle([update(1, name="a", round=1)], 5.0)
    assert step.wake_at_s == 100.0, "it looks again by itself"
    assert assigned(one.handle([announce("a", waiting=9)], 99.9).messages) == []
    step = one.handle([], 100.0)
    assert assigned(step.messages) == ["a"]
    assert step.wake_at_s == 160.0, "now it is the round that ends first"


def test_a_tick_at_which_nobody_could_be_woken_is_over() -> None:
    one = server(round_every_s=100.0)
    assert one.handle([announce("a", 0, waiting=0)], 0.0).wake_at_s == 100.0
    assert assigned(one.handle([announce("a", waiting=3)], 1.0).messages) == []
    assert assigned(one.handle([], 100.0).messages) == ["a"]


def test_a_restart_makes_no_extra_tick(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.db")
    joined("a", ledger=ledger, round_every_s=100.0).handle([update(1, name="a", round=1)], 5.0)
    ledger.close()
    again = server(Ledger(tmp_path / "l.db"), round_every_s=100.0)
    assert assigned(again.handle([announce("a", waiting=9)], 50.0).messages) == []
    assert assigned(again.handle([], 100.0).messages) == ["a"]


def test_a_clock_that_jumped_back_does_not_stop_the_rounds() -> None:
    one = joined("a", round_every_s=100.0)
    one.handle([update(1, name="a", round=1)], 5.0)
    assert assigned(one.handle([announce("a", waiting=9)], -1000.0).messages) == ["a"]


def test_a_finished_job_does_not_tick() -> None:
    one = joined("a", rounds=1, round_every_s=100.0)
    assert one.handle([update(1, name="a", round=1)], 5.0).wake_at_s is None


def test_nobody_is_woken_for_less_than_the_least() -> None:
    one = server(min_waiting=5)
    assert assigned(one.handle([announce("a", 0, waiting=4)], 0.0).messages) == []
    assert assigned(one.handle([announce("a", waiting=5)], 1.0).messages) == ["a"]


def test_examples_that_waited_too_long_are_fetched_however_few() -> None:
    one = server(min_waiting=5, max_wait_s=1000.0, presence_timeout_s=1e6)
    one.handle([announce("a", 0, waiting=0)], 0.0)
    one.handle([announce("a", waiting=1)], 400.0)
    assert assigned(one.handle([announce("a", waiting=2)], 1399.0).messages) == []
    assert assigned(one.handle([], 1400.0).messages) == ["a"], "the first has waited for long"


def test_the_server_looks_by_itself_when_examples_have_waited_too_long() -> None:
    """Nobody sends a message: an idle worker waits to be selected."""
    one = server(min_waiting=5, max_wait_s=1000.0, presence_timeout_s=1e6)
    wake_s = one.handle([announce("a", 0, waiting=2)], 400.0).wake_at_s
    assert wake_s == pytest.approx(1400.0)
    assert assigned(one.handle([], wake_s or 0.0).messages) == ["a"]


def test_examples_wait_no_longer_because_the_clock_jumped_back() -> None:
    """An idle worker does not announce itself again."""
    one = server(min_waiting=5, max_wait_s=1000.0)
    assert assigned(one.handle([announce("a", 0, waiting=2)], 1e9).messages) == []
    assert assigned(one.handle([], 1e9 - 86_400.0).messages) == ["a"]


def test_the_server_looks_by_itself_when_a_worker_has_a_new_budget_of_charge() -> None:
    one = server(presence_timeout_s=1e6)
    joins = announce("a", 0, waiting=2, capacity_j=100.0)
    assert assigned(one.handle([joins], 400.0).messages) == ["a"]
    wake_s = one.handle([update(1, name="a", round=1, energy_j=1.9)], 500.0).wake_at_s
    assert wake_s == pytest.approx(86_400.0)
    assert assigned(one.handle([], wake_s or 0.0).messages) == ["a"]


def test_what_is_left_after_a_training_begins_to_wait_again() -> None:
    one = server(min_waiting=2, max_wait_s=1000.0, presence_timeout_s=1e6)
    assert assigned(one.handle([announce("a", 0, waiting=3)], 0.0).messages) == ["a"]
    one.handle([update(1, 2, name="a", round=1)], 50.0)
    assert assigned(one.handle([], 1049.0).messages) == []
    assert assigned(one.handle([], 1050.0).messages) == ["a"]


def test_waiting_survives_a_restart(tmp_path: Path) -> None:
    rules: dict[str, Any] = {"min_waiting": 5, "max_wait_s": 100.0, "presence_timeout_s": 1e6}
    ledger = Ledger(tmp_path / "l.db")
    server(ledger, **rules).handle([announce("a", 0, waiting=1)], 50.0)
    ledger.close()
    again = server(Ledger(tmp_path / "l.db"), **rules)
    assert assigned(again.handle([], 149.0).messages) == []
    assert assigned(again.handle([], 150.0).messages) == ["a"]


@pytest.mark.parametrize(
    "wrong", [{"min_waiting": 0}, {"max_wait_s": -1.0}, {"round_every_s": -1.0}]
)
def test_terms_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(wrong))):
        Rules(**wrong)


@pytest.mark.parametrize("restarted", [True, False])
def test_a_process_that_has_ended_trains_no_more(restarted: bool) -> None:
    """A worker restarts after an assignment that it has not seen, and says nothing else."""
    one = joined("a", ttl_s=20.0, presence_timeout_s=1e6)
    one.handle([announce("a", waiting=5, session=2 if restarted else 0)], 5.0)
    step = one.handle([], 20.0)
    assert assigned(step.messages) == (["a"] if restarted else [])


def test_a_worker_is_assigned_again_soon_after_the_clock_jumped_back_a_day() -> None:
    """The assignment of before was lost; nobody counts as busy for a day."""
    day_s = 86_400.0
    one = joined("w", rounds=10, ttl_s=20.0)
    assert one.workers["w"].training
    one.handle([], -day_s)
    replies = one.handle([announce("w")], 21.0 - day_s).messages
    assert "Assignment" in kinds(replies)
