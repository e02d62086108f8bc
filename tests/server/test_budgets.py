"""What counts against a worker's budget of charge: what it spent, once."""

from typing import Any

import pytest

from dealfl.protocol.messages import Assignment
from dealfl.server import Ledger, Server
from tests.federation.parts import announce, joined, server, update

DAY_S = 86_400.0
HEARD: dict[str, Any] = {"presence_timeout_s": 1e9}


def spent_j(one: Server, name: str = "a") -> float:
    return float(one.workers[name].spent_j)


def trained(ledger: Ledger | None = None) -> Server:
    """Return a server that knows that a training of a takes 2 J; its second round is open."""
    one = joined("a", ledger=ledger, **HEARD)
    one.handle([update(1, name="a", round=1, energy_j=2.0), announce("a")], 1.0)
    return one


def test_a_worker_that_says_nothing_is_charged_what_was_expected() -> None:
    one = trained()
    one.handle([], 61.0)
    assert spent_j(one) == 4.0


@pytest.mark.parametrize("energy_j", [0.5, 2.0, 3.0])
def test_a_late_reply_takes_the_place_of_what_was_expected(energy_j: float) -> None:
    one = trained()
    one.handle([], 61.0)
    for moment_s in (70.0, 80.0):  # a second copy changes nothing
        one.handle([update(2, name="a", round=2, energy_j=energy_j)], moment_s)
        assert spent_j(one) == pytest.approx(2.0 + energy_j)


def test_a_reply_after_the_majority_is_charged_once() -> None:
    one = joined("a", "b", "c", **HEARD)
    first = [update(1, name=name, round=1, energy_j=2.0) for name in "abc"]
    one.handle([*first, *(announce(name) for name in "abc")], 1.0)
    one.handle([update(2, name=name, round=2, energy_j=2.0) for name in "bc"], 2.0)
    assert spent_j(one) == 4.0, "the majority closed the round without it"
    one.handle([update(2, name="a", round=2, energy_j=2.0)], 3.0)
    assert spent_j(one) == 4.0


def test_a_restart_between_does_not_charge_twice() -> None:
    ledger = Ledger()
    trained(ledger).handle([], 61.0)
    again = server(ledger, **HEARD)
    again.handle([update(2, name="a", round=2, energy_j=2.0)], 70.0)
    assert spent_j(again) == 4.0


def test_what_was_expected_the_day_before_gives_nothing_back_today() -> None:
    one = trained()
    one.handle([], 61.0)
    one.handle([announce("a")], DAY_S + 100.0)
    one.handle([update(2, name="a", round=3, energy_j=5.0)], DAY_S + 101.0)
    assert spent_j(one) == 5.0, "a new day"
    one.handle([update(3, name="a", round=2, energy_j=1.0)], DAY_S + 102.0)
    assert spent_j(one) == 6.0


def test_a_new_worker_is_selected_whatever_the_clock_and_its_battery() -> None:
    """Its first training costs nothing as far as is known, and it does not train already."""
    one = server()
    step = one.handle([announce("a", 0, capacity_j=0.5)], -1000.0)
    assert [message.worker for message in step.messages if isinstance(message, Assignment)] == ["a"]
