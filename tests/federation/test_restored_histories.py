"""Ledger or journal from a backup, step by step: what contradicts the record begins anew."""

from typing import Any

import pytest

from dealfl.erasure import owner_hash
from dealfl.exact import Statistics
from dealfl.protocol.messages import (
    Announce,
    Assignment,
    Erase,
    Message,
    Published,
    Receipt,
    Update,
    Welcome,
)
from dealfl.server import Ledger, Server
from dealfl.worker import Journal, State, Worker
from tests.federation.parts import (
    KEY,
    announce,
    examples,
    learned_statistics,
    row,
    server,
    update,
    worker,
)


class Pair:
    """A server and a worker whose databases can be copied and restored; messages can be lost."""

    def __init__(self, publish_every_s: float = 0.0) -> None:
        self.publish_every_s = publish_every_s
        self.ledger, self.journal, self.now_s = Ledger(), Journal(journal_id="journal of w"), 0.0
        self.server, self.worker = self.start_server(), self.start_worker()
        self.lost: tuple[type, ...] = ()
        self.sent: list[Message] = []

    def start_server(self) -> Server:
        self.server = server(self.ledger, publish_every_s=self.publish_every_s)
        return self.server

    def start_worker(self) -> Worker:
        self.worker = worker(journal=self.journal, announce_every_s=1.0, forget_fraction="0")
        return self.worker

    def talk(self, *lost: type, times: int = 6) -> None:
        self.now_s += 100.0
        self.lost = lost
        step = self.worker.handle((), self.now_s)
        for _ in range(times):
            back = self.server.handle(self.kept(step.messages), self.now_s)
            step = self.worker.handle(self.kept(back.messages), self.now_s)

    def kept(self, messages: tuple[Message, ...]) -> list[Message]:
        self.sent += messages
        return [message for message in messages if not isinstance(message, self.lost)]

    def learn(self, owner: str, *lost: type) -> None:
        self.worker.ingest([(owner, row(0.0, 0.5, 1.0))])
        self.talk(*lost)

    def erase(self, request: str, owner: str) -> None:
        step = self.server.erase(request, [owner_hash(KEY, owner)], self.now_s)
        self.worker.handle(self.kept(step.messages), self.now_s)
        self.talk()

    def restore_ledger(self, content: bytes) -> None:
        """Copy the file back, without `dealfl restore`."""
        self.ledger.replace_content(content)
        self.start_server()

    def restore_journal(self, content: bytes) -> None:
        self.journal.replace_content(content)
        self.start_worker()

    def kinds_sent(self, kind: type) -> list[Any]:
        return [message for message in self.sent if isinstance(message, kind)]

    def counted(self) -> Statistics | None:
        return self.ledger.find_sum("w")

    def check(self) -> None:
        """See whether the server has counted exactly what the worker holds."""
        for _ in range(4):
            self.talk()
        assert self.counted() == learned_statistics(self.journal)
        assert not self.journal.outgoing


def test_a_receipted_update_that_is_not_on_record_begins_a_new_incarnation() -> None:
    """The announcement that tells of the gap is lost; an update after it must not hide it."""
    pair = Pair()
    pair.learn("ann")
    backup = pair.ledger.content()
    pair.learn("bob")
    pair.learn("eve", Update)
    pair.restore_ledger(backup)
    pair.talk(Announce)
    assert pair.ledger.updates.last_sequence("w", 1) == 3, "the second is nowhere"
    pair.check()
    assert pair.server.workers["w"].incarnation == 2
    assert pair.counted() == examples(3)


def test_receipts_of_a_copy_of_the_ledger_begin_a_new_incarnation() -> None:
    """Both copies have an update 2 of this incarnation, and they are not the same."""
    pair = Pair()
    pair.learn("ann")
    ledger, journal = pair.ledger.content(), pair.journal.content()
    pair.learn("bob")
    with_bob = pair.ledger.content()
    pair.restore_journal(journal)
    pair.restore_ledger(ledger)
    pair.worker.ingest([("eve", row(1.0, 0.5, 0.0, target="b"))])
    pair.talk()
    assert [m.sequence for m in pair.kinds_sent(Receipt)][-1] == 2
    assert pair.server.workers["w"].incarnation == 1, "so far nothing contradicts"
    pair.restore_ledger(with_bob)
    pair.check()
    assert pair.server.workers["w"].incarnation == 2
    assert len(pair.journal.records(State.LEARNED)) == 2


def test_a_journal_from_a_backup_begins_a_new_incarnation() -> None:
    pair = Pair()
    pair.learn("ann")
    backup = pair.journal.content()
    pair.learn("bob")
    pair.restore_journal(backup)
    pair.check()
    assert pair.counted() == examples(1)
    pair.learn("eve")
    pair.check()
    assert pair.counted() == examples(2)


def test_a_journal_from_before_several_restarts_is_heard_again() -> None:
    pair = Pair()
    pair.learn("ann")
    backup = pair.journal.content()
    for _ in range(3):  # each process has a higher number than the one before
        pair.start_worker()
        pair.talk()
    pair.restore_journal(backup)
    pair.learn("bob")
    pair.check()
    assert pair.counted() == examples(2)


def test_rounds_of_a_restored_ledger_are_trained_although_their_numbers_were_used() -> None:
    pair = Pair()
    pair.learn("ann")
    backup = pair.ledger.content()
    for owner in ("bob", "eve", "joe"):
        pair.learn(owner)
    last = max(m.round for m in pair.kinds_sent(Assignment))
    pair.restore_ledger(backup)
    pair.check()
    pair.sent.clear()
    pair.learn("kim")
    assert next(m.round for m in pair.kinds_sent(Update) if m.round is not None) <= last
    pair.check()
    assert pair.counted() == examples(5)


def test_a_version_of_a_restored_ledger_replaces_a_higher_one() -> None:
    pair = Pair()
    pair.learn("ann")
    backup = pair.ledger.content()
    for owner in ("bob", "eve", "joe"):
        pair.learn(owner)
    old = pair.worker.model_version
    pair.restore_ledger(backup)
    for _ in range(2):
        pair.talk()
    version, statistics = pair.journal.published() or (0, b"")
    assert 0 < version < old
    assert Statistics.from_bytes(statistics) == pair.server.model.statistics
    epochs = [m.epoch for m in pair.kinds_sent(Published)]
    assert len(set(epochs)) == 2


def test_a_person_erased_after_the_backup_of_a_journal_is_not_learned_again() -> None:
    """Her records only wait in the backup, so that no update was ever made of them."""
    pair = Pair()
    pair.learn("bob")
    pair.worker.ingest([("ann", row(0.0, 0.5, 1.0))])
    backup = pair.journal.content()
    pair.erase("r", "ann")
    pair.restore_journal(backup)
    for _ in range(3):
        pair.talk(Erase)
    assert pair.journal.count(State.WAITING) == 1, "nothing is learned before the list is known"
    pair.learn("eve")
    pair.check()
    assert pair.counted() == examples(2)
    assert not any(pair.journal.records_of([owner_hash(KEY, "ann")]).values())
    pair.learn("ann")
    assert pair.counted() == examples(2), "nor taken in again"


def test_a_request_whose_name_is_used_again_erases_the_other_person() -> None:
    pair = Pair()
    for owner in ("ann", "bob", "eve"):
        pair.learn(owner)
    backup = pair.ledger.content()
    pair.erase("r", "ann")
    pair.restore_ledger(backup)
    pair.erase("r", "bob")
    pair.check()
    for owner in ("ann", "bob"):
        assert not any(pair.journal.records_of([owner_hash(KEY, owner)]).values())
    assert pair.server.reader.answers("r") == {"w": 1}


def test_the_last_version_is_sent_again_in_a_new_epoch_although_nothing_has_changed() -> None:
    """Workers forget their version with the epoch, and nothing new would ever be published."""
    pair = Pair(publish_every_s=3600.0)
    pair.learn("ann")
    pair.talk()
    backup = pair.ledger.content()
    pair.server.handle([announce("v", 0)], pair.now_s)
    closed = pair.server.handle([], pair.now_s + 60.0)  # a round in which nobody replies
    pair.worker.handle(closed.messages, pair.now_s + 60.0)
    assert pair.worker.model_version == 2
    pair.restore_ledger(backup)
    pair.server.handle([], pair.now_s)  # as a process does when it starts
    pair.talk()
    assert pair.journal.state.epoch == pair.server.epoch != ""
    assert pair.worker.model_version == 1
    assert pair.server.reader.last_version() is not None


def test_a_restored_ledger_begins_one_new_epoch() -> None:
    pair = Pair()
    pair.learn("ann")
    backup, before = pair.ledger.content(), pair.server.epoch
    assert {m.epoch for m in pair.kinds_sent(Welcome)} == {before}, "a newcomer proves nothing"
    pair.learn("bob")
    pair.restore_ledger(backup)
    for _ in range(3):
        pair.talk()
    assert len({m.epoch for m in pair.kinds_sent(Welcome)}) == 2
    assert pair.server.epoch != before


def test_a_ledger_put_back_is_exact_at_once_although_a_round_is_open() -> None:
    """A round of the backup waits for nobody: no worker knows its assignment any more."""
    pair = Pair()
    pair.learn("ann")
    pair.worker.ingest([("bob", row(0.0, 0.5, 1.0))])
    announced = pair.worker.handle((), pair.now_s + 1.0)
    pair.server.handle(announced.messages, pair.now_s + 1.0)
    assert pair.ledger.rounds.find_open() is not None
    backup = pair.ledger.content()
    pair.talk()
    pair.learn("eve")
    held = learned_statistics(pair.journal)
    pair.restore_ledger(backup)
    open_round = pair.ledger.rounds.find_open()
    assert open_round is not None
    pair.now_s = open_round.deadline_s - 30.0
    pair.worker.reconnect()
    step = pair.worker.handle((), pair.now_s)
    behind = []
    for _ in range(4):
        back = pair.server.handle(step.messages, pair.now_s)
        behind.append(pair.server.workers["w"].behind > 0)
        step = pair.worker.handle(back.messages, pair.now_s)
    assert pair.counted() == held
    assert behind[0], "it is known that the sum is old"
    assert not behind[-1]
    assert pair.server.reader.closed_rounds()[-1].reason == "restored"


@pytest.mark.parametrize("other", ["none", "returns", "is removed"])
def test_the_last_sum_that_was_awaited_after_a_restore_is_published_at_once(other: str) -> None:
    """No round closes, as no rows are new; a version an hour later would be late."""
    pair = Pair(publish_every_s=3600.0)
    pair.learn("ann")
    sums = examples(2)
    if other != "none":
        pair.server.handle([announce("v", 0), update(1, delta=sums, name="v")], pair.now_s)
        pair.server.handle([], pair.now_s + 3600.0)
    backup = pair.ledger.content()
    pair.learn("bob")
    pair.restore_ledger(backup)
    pair.talk()
    held = learned_statistics(pair.journal)
    total = held if other == "none" else held + sums
    if other != "none":
        before = pair.server.reader.last_version()
        assert pair.server.workers["v"].behind
        pair.talk()
        assert pair.server.reader.last_version() == before, "the sum of one is no version"
    if other == "returns":
        back = announce("v", 1, epoch=pair.server.epoch, sequence=1, waiting=0)
        pair.server.handle([back], pair.now_s)
    elif other == "is removed":
        total = held
        pair.server.remove("v", pair.now_s)
    version = pair.server.reader.last_version()
    assert version is not None
    assert version.digest == pair.server.model.digest()
    assert pair.server.model.statistics == total
    assert not any(row.behind for row in pair.server.workers.values())
    if other == "returns":
        pair.server.handle([update(2, name="v")], pair.now_s)
        assert pair.server.model.statistics != total
        assert pair.server.reader.last_version() == version, "what comes later waits as always"


@pytest.mark.parametrize("backup", ["none", "before the first version"])
def test_sums_that_come_back_before_the_first_version_are_published_at_once(backup: str) -> None:
    pair = Pair(publish_every_s=3600.0)
    content = Ledger().content()
    if backup != "none":
        pair.talk()
        content = pair.ledger.content()
    pair.learn("ann")
    pair.restore_ledger(content)
    pair.talk()
    version = pair.server.reader.last_version()
    assert version is not None
    assert version.digest == pair.server.model.digest()
    assert pair.server.model.statistics == examples(1)


def test_the_sum_of_a_worker_that_a_backup_does_not_know_is_published_at_once() -> None:
    pair = Pair(publish_every_s=3600.0)
    pair.learn("ann")
    backup, epoch = pair.ledger.content(), pair.server.epoch
    pair.learn("bob")
    pair.ledger.replace_content(backup)
    with pair.ledger.transaction():
        pair.ledger.begin_epoch()  # as `dealfl restore` does
    pair.start_server()
    pair.talk()
    before = pair.server.reader.last_version()
    assert before is not None
    assert before.digest == pair.server.model.digest()
    unknown = announce("v", 1, epoch=epoch, sequence=1, receipted=1, waiting=0)
    pair.server.handle([unknown], pair.now_s)
    epoch = pair.server.epoch
    pair.server.handle([announce("v", 2, epoch=epoch, sequence=1, waiting=0)], pair.now_s)
    full = update(1, 2, name="v", incarnation=2, epoch=epoch)
    pair.server.handle([full], pair.now_s)
    version = pair.server.reader.last_version()
    assert version is not None
    assert version.digest == pair.server.model.digest()
    assert pair.server.model.statistics == examples(4)


def test_a_worker_that_is_silent_after_a_restore_counts_as_behind() -> None:
    pair = Pair()
    pair.learn("ann")
    assert pair.server.workers["w"].behind == 0
    pair.server.handle([announce("busy", 0)], pair.now_s)
    assert pair.server.workers["busy"].training
    assert pair.server.workers["busy"].behind == 0, "it has sent nothing that could be old"
    pair.server.handle([announce("gone", 0)], pair.now_s)
    pair.server.remove("gone", pair.now_s)
    with pair.ledger.transaction():
        pair.ledger.begin_epoch()  # as `dealfl restore` does
    pair.start_server()
    assert pair.server.workers["w"].behind > 0
    assert pair.server.workers["gone"].behind == 0, "nothing of it is awaited"
    assert not pair.server.workers["busy"].training, "it knows of no assignment"
    pair.talk()
    assert pair.server.workers["w"].behind == 0
    pair.check()
