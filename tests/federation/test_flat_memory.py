"""A server and a worker that handle many messages need no more memory than after a few."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dealfl.server import Ledger, Server
from dealfl.worker import Journal, Worker
from tests.federation.parts import row, server, worker
from tests.federation.test_every_write import CONNECT

GROWTH_BYTES = 60_000  # of all Python objects, which vary by 30,000 from round to round


class Talk:
    """A server and a worker in this process, with a ledger and a journal on disk."""

    def __init__(self, ledger: Ledger, journal: Journal) -> None:
        self._server: Server = server(ledger, rounds=10**6, publish_every_s=0.0)
        self._worker: Worker = worker(journal=journal, forget_fraction="0.5")
        self.rounds = self.messages = 0

    def run(self, rounds: int) -> None:
        """Let the worker take part in rounds, with two new examples in each."""
        for _ in range(rounds):
            self.rounds += 1
            self._worker.ingest([(f"person {self.rounds % 7}", row(0.0, 0.5, 1.0))] * 2)
            step = self._worker.handle((), float(self.rounds))
            while step.messages:
                back = self._server.handle(step.messages, float(self.rounds))
                self.messages += len(step.messages) + len(back.messages)
                step = self._worker.handle(back.messages, float(self.rounds))

    @property
    def closed(self) -> int:
        """Number of closed rounds."""
        return self._server.reader.count_closed()


@contextmanager
def talking(folder: Path) -> Iterator[Talk]:
    """Yield a server and a worker, while all memory of Python objects is traced."""
    with (
        closing(Ledger(folder / "ledger.db", kept_rounds=20, connect=CONNECT)) as ledger,
        closing(Journal(folder / "journal.db", connect=CONNECT)) as journal,
    ):
        tracemalloc.start()
        try:
            yield Talk(ledger, journal)
        finally:
            tracemalloc.stop()


def held_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def check_flat(folder: Path, warm: int, rounds: int) -> Talk:
    """Check that rounds after a warm-up leave nothing in memory."""
    with talking(folder) as talk:
        talk.run(warm)
        before = held_bytes()
        talk.run(rounds)
        grown = held_bytes() - before
        assert talk.closed >= warm + rounds - 2
    assert grown < GROWTH_BYTES, f"{grown} bytes in {rounds} rounds, {talk.messages} messages"
    return talk


def test_hundreds_of_rounds_leave_nothing_in_memory(tmp_path: Path) -> None:
    assert check_flat(tmp_path, 100, 400).messages > 2_000


@pytest.mark.soak
def test_two_thousand_rounds_leave_nothing_in_memory(tmp_path: Path) -> None:
    assert check_flat(tmp_path, 500, 2_000).messages > 10_000


@pytest.mark.soak
def test_a_hundred_thousand_messages_leave_nothing_in_memory(tmp_path: Path) -> None:
    assert check_flat(tmp_path, 1_000, 20_000).messages > 100_000
