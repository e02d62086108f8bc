"""What `dealfl work` logs of its messages, which are repeated until they are answered."""

import logging
from typing import Any

import pytest

from dealfl.network.worker_end import MessageLog
from dealfl.protocol import Assignment, Declined, Erased, Message, Receipt, Refusal, Update
from dealfl.storage.logs import LOG

WHERE: dict[str, Any] = {"job": "job", "worker": "w1"}
WHICH: dict[str, Any] = {**WHERE, "incarnation": 0, "sequence": 1}


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (Assignment(**WHERE, round=3, deadline_s=9.0), "selected"),
        (Declined(**WHERE, round=3, reason="no examples"), "declined"),
        (Update(**WHICH, round=3, delta=b"delta"), "update sent"),
        (Receipt(**WHICH), "update counted"),
        (Refusal(**WHICH, reason="expired"), "update refused"),
        (Erased(**WHERE, request="r1", examples=2), "erased"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_message_that_is_repeated_is_logged_once(
    message: Message, event: str, caplog: pytest.LogCaptureFixture
) -> None:
    logged = MessageLog()
    with caplog.at_level(logging.INFO, LOG.name):
        for _ in range(3):
            logged.note([message])
    assert [record.getMessage() for record in caplog.records] == [event]
