"""Assignments warn workers of a change that many others have noticed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dealfl.protocol.messages import Assignment, Message
from dealfl.server import Ledger, Server
from tests.federation.parts import announce, joined, server, update

DAY_S = 86_400.0
NAMES = [f"w{number}" for number in range(10)]


def alarmed(count: int, now_s: float = 1.0, ledger: Ledger | None = None, **claims: Any) -> Server:
    """Return a server to which ten workers replied, some of them after an alarm."""
    one = joined(*NAMES, ledger=ledger)
    replies = [update(1, 5, name=name, round=1) for name in NAMES]
    alarms = [update(1, 5, name=n, round=1, alarmed=True, **claims) for n in NAMES[:count]]
    one.handle([*alarms, *replies[count:]], now_s)
    return one


def warned(one: Server, now_s: float, messages: Sequence[Message] = ()) -> list[str]:
    """Return the workers whose next assignments warn them."""
    waiting = [announce(name, waiting=9, epoch=one.epoch) for name in NAMES]
    orders = [
        message
        for message in one.handle(messages or waiting, now_s).messages
        if isinstance(message, Assignment)
    ]
    assert orders
    return [order.worker for order in orders if order.others_alarmed]


@pytest.mark.parametrize(("count", "others"), [(0, []), (2, []), (3, NAMES[3:]), (10, [])])
def test_three_of_ten_speak_for_all_and_are_not_warned_themselves(
    count: int, others: list[str]
) -> None:
    assert warned(alarmed(count), 100.0) == others


def test_alarms_are_forgotten_after_two_days_and_stay_so() -> None:
    assert warned(alarmed(3), 2 * DAY_S) == NAMES[3:]
    one = alarmed(3)
    assert warned(one, 2 * DAY_S + 1.0) == []
    replies = [update(2, 5, name=name, round=2) for name in NAMES]
    assert warned(one, 2 * DAY_S + 2.0, replies) == []  # rows still say when they were alarmed


def test_alarms_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger(path)
    alarmed(3, ledger=ledger)
    ledger.close()
    assert warned(server(Ledger(path)), 100.0) == NAMES[3:]


def test_an_alarm_whose_other_claims_do_not_fit_is_not_believed() -> None:
    assert warned(alarmed(3, learned=6), 100.0) == []


def test_a_removed_worker_is_not_counted() -> None:
    one = alarmed(3)
    one.remove("w0", 50.0)
    assert warned(one, 100.0) == []
