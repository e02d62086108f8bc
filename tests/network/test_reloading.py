"""Users that are enrolled while mosquitto reads its files again are admitted, too."""

import os
import signal
from pathlib import Path

import pytest

from tests.network.brokers import start_broker
from tests.network.strangers import Stranger


def test_a_signal_that_mosquitto_loses_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start_broker(tmp_path / "broker")
    sent, kill = list[int](), os.kill

    def lose_first(process: int, number: int) -> None:
        sent.append(number)
        if len(sent) > 1:
            kill(process, number)

    try:
        monkeypatch.setattr(os, "kill", lose_first)
        credentials = running.enrol("w1")
        monkeypatch.undo()
        Stranger(credentials).connect().die()
    finally:
        running.kill()
    assert sent == [signal.SIGHUP, signal.SIGHUP]
