"""What `dealfl work` and `dealfl serve` log, each once."""

import logging
from typing import Any

import pytest

from dealfl.network.serving import ServerLog
from dealfl.network.worker_end import MessageLog
from dealfl.protocol import Assignment, Declined, Erased, Message, Receipt, Refusal, Update
from dealfl.server import Ledger
from dealfl.storage.logs import LOG
from tests.federation.parts import announce, server, update

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


def test_a_server_logs_workers_updates_rounds_versions_and_erasures_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = Ledger()
    changed = ledger.log_changes()
    one = server(ledger=ledger, publish_every_s=0.0)
    told = ServerLog("job", ledger.reader, changed, lambda: one.workers)

    def read() -> list[str]:
        caplog.clear()
        told.note()
        told.note()
        return [record.getMessage() for record in caplog.records]

    with caplog.at_level(logging.INFO, LOG.name):
        one.handle([announce("w", 0)], 0.0)
        one.handle([update(1, round=1)], 1.0)
        assert read() == ["worker joined", "update counted", "round closed", "version published"]
        one.erase("request", [b"ann"], 2.0)
        assert read() == ["erasures recorded"]
        one.handle([announce(sequence=1, erased=(ledger.erasures.end(),), waiting=0)], 100.0)
        assert read() == ["version published"]
        one.confirm(2)
        assert read() == ["erasures published"]
        one.flag("w", "packet refused")
        assert read() == ["worker flagged"]
