"""An erasure reaches a worker in every state, over the network's own messages, and ends exact."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from shutil import copyfile

import pytest

from dealfl.erasure import owner_hash
from dealfl.protocol.messages import Message, Published, Receipt, Sleep, Update
from dealfl.protocol.transport import decode, encode
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Everyone
from dealfl.worker import Journal, Worker
from tests.federation.parts import KEY, FixedMeter, bayes, row

ANN, BOB = "ann", "bob"
RULES = {"rounds": 10**6, "ttl_s": 20.0, "publish_every_s": 1.0, "max_wait_s": 300.0}


class Pair:
    """A server and a worker with stores on disk, and a network that can lose what they send."""

    def __init__(self, folder: Path, sleeps: bool = False, min_waiting: int = 1) -> None:
        self._folder, self._sleeps, self.now_s = folder, sleeps, 0.0
        self._rules = Rules(**RULES, min_waiting=min_waiting)  # type: ignore[arg-type]
        self.meter, self._inbox = FixedMeter(elapsed_s=1.0), list[Message]()
        self.serve()
        self.work()

    def serve(self) -> None:
        """Start the server, or start it again."""
        self.ledger = Ledger(self._folder / "ledger.db")
        self.server = Server("job", bayes, self.ledger, self._rules, Everyone())

    def work(self) -> None:
        """Start the worker, or start it again."""
        self.journal = Journal(self._folder / "journal.db")
        sleeps = Sleep(job="job", worker="w", waiting=1, within_s=300.0) if self._sleeps else None
        self.worker = Worker(
            "job", "w", bayes, self.journal, self.meter, key=KEY, scheme_name="incremental",
            retry_after_s=5.0, sleeps=sleeps,
        )  # fmt: skip
        self.worker.reconnect()

    def turn(self, lost: Callable[[Message], bool] = lambda _: False) -> None:
        """Carry what both say, as packets; a sleeping worker hears nothing."""
        self.now_s += 1.0
        heard = [] if self.worker.is_asleep else self._inbox
        up = _carry(self.worker.handle(heard, self.now_s).messages, lost)
        down = self.server.handle(up, self.now_s).messages
        for version in down:
            if isinstance(version, Published):  # the broker has it
                self.server.confirm(version.version)
        self._inbox = [one for one in _carry(down, lost) if one.worker in ("", "w")]

    def turns(self, count: int, lost: Callable[[Message], bool] = lambda _: False) -> None:
        for _ in range(count):
            self.turn(lost)

    def lose(self) -> None:
        """Lose what is on the way to the worker."""
        self._inbox = []

    def erase(self) -> None:
        """Ask for ann's erasure; the worker hears of it if it is connected."""
        step = self.server.erase("r", [owner_hash(KEY, ANN)], self.now_s)
        self._inbox += step.messages

    @property
    def pending(self) -> int:
        requested, shown = self.server.reader.count_erasures()
        return requested - shown

    def check(self, bobs: int) -> None:
        """Compare with a model that never saw ann."""
        assert self.server.workers["w"].forgotten == 1
        assert self.pending == 0 or self.server.reader.last_version() is None
        model = bayes()
        if bobs:
            model.learn([[0.0, 0.5, 1.0]] * bobs, ["b"] * bobs)
        assert self.server.model.digest() == model.digest()
        assert not any(self.journal.records_of([owner_hash(KEY, ANN)]).values())
        assert self.ingest(ANN) == 0, "she does not come back from the file"

    def ingest(self, *owners: str) -> int:
        return self.worker.ingest(
            [(one, row(0.0, 0.5, 1.0, target=one[0])) for one in owners]
        ).waiting


def _carry(messages: Iterable[Message], lost: Callable[[Message], bool]) -> list[Message]:
    kept = [one for one in messages if not isinstance(one, Published) and not lost(one)]
    return list(decode(encode(kept))) if kept else []


def learned(folder: Path, sleeps: bool = False) -> Pair:
    """Return a worker whose examples are in the model."""
    pair = Pair(folder, sleeps)
    pair.ingest(ANN, BOB)
    pair.turns(10)
    assert pair.server.model.digest() != bayes().digest()
    return pair


def never_selected(folder: Path) -> Pair:
    pair = Pair(folder, min_waiting=100)
    pair.ingest(ANN, BOB)
    pair.turns(5)
    assert not pair.server.reader.closed_rounds()
    pair.erase()
    return pair


def in_training(folder: Path) -> Pair:
    pair = Pair(folder)
    pair.meter.elapsed_s = 10.0
    pair.ingest(ANN, BOB)
    pair.turns(5)
    assert [one.sent for one in pair.journal.outgoing.values()] == [False]
    pair.erase()
    return pair


def lost_in(kind: type[Message]) -> Callable[[Path], Pair]:
    def make(folder: Path) -> Pair:
        pair = Pair(folder)
        pair.ingest(ANN, BOB)
        pair.turns(8, lambda one: isinstance(one, kind))
        assert [one.sent for one in pair.journal.outgoing.values()] == [True]
        pair.erase()
        return pair

    return make


def asleep(folder: Path) -> Pair:
    pair = learned(folder, sleeps=True)
    assert pair.worker.is_asleep
    pair.erase()
    pair.turns(20)
    assert pair.pending == 1
    pair.turns(300)
    return pair


def removed(folder: Path) -> Pair:
    pair = learned(folder)
    pair.server.remove("w", pair.now_s)
    pair.erase()
    assert pair.server.model.digest() == bayes().digest()
    pair.worker.reconnect()
    return pair


def restored(folder: Path) -> Pair:
    pair = learned(folder)
    pair.journal.close()
    copyfile(folder / "journal.db", folder / "copy.db")
    pair.work()
    pair.erase()
    pair.turns(30)
    assert pair.pending == 0
    pair.journal.close()
    copyfile(folder / "copy.db", folder / "journal.db")
    pair.work()
    assert any(pair.journal.records_of([owner_hash(KEY, ANN)]).values())
    return pair


def server_restarted(folder: Path) -> Pair:
    pair = learned(folder)
    pair.erase()
    pair.ledger.close()
    pair.serve()
    pair.lose()
    pair.worker.reconnect()
    return pair


STATES = {
    "never selected": (never_selected, 0), "in training": (in_training, 1),
    "its update was lost": (lost_in(Update), 1), "its receipt was lost": (lost_in(Receipt), 1),
    "asleep": (asleep, 1), "removed": (removed, 1), "restored from a backup": (restored, 1),
    "the server was restarted": (server_restarted, 1),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_person_is_erased_from_a_worker_that_is(state: str, tmp_path: Path) -> None:
    make, bobs = STATES[state]
    pair = make(tmp_path)
    pair.turns(60)
    pair.check(bobs)
    pair.journal.close()
    pair.ledger.close()
