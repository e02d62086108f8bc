"""Hard cases in which worker or server once went wrong."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dealfl.erasure import owner_hash
from dealfl.errors import BadInput
from dealfl.protocol.messages import (
    Declined,
    Erase,
    Erased,
    Published,
    Update,
    Withdraw,
)
from dealfl.server import Ledger, RewardWeights, compute_reward
from dealfl.worker import Journal
from dealfl.worker.outbox import Outbox
from tests.federation.parts import (
    KEY,
    Connect,
    announce,
    assignment,
    bayes,
    examples,
    item,
    joined,
    kinds,
    pagerank,
    row,
    server,
    update,
    updates,
    welcomed,
    worker,
)


@pytest.mark.parametrize(
    "body",
    [row(0.0, 0.5), b"\xc1", b"\x05", msgspec.msgpack.encode(("text", "a"))],
    ids=["short row", "no msgpack", "no pair", "no numbers"],
)
def test_a_body_that_is_no_row_is_put_aside(body: bytes) -> None:
    accepted = welcomed().ingest([("ann", row(0.0, 0.5, 1.0)), ("eve", body)])
    assert (accepted.waiting, accepted.quarantined) == (1, 1)


@pytest.mark.parametrize("body", [b"\xc1", item(2**63)], ids=["no msgpack", "huge"])
def test_a_body_that_is_no_item_is_put_aside(body: bytes) -> None:
    accepted = welcomed(pagerank).ingest([("ann", item(1)), ("eve", body)])
    assert (accepted.waiting, accepted.quarantined) == (1, 1)


def test_every_record_that_was_put_aside_is_reported() -> None:
    journal = Journal()
    one = welcomed(journal=journal)
    for _ in range(3):
        one.ingest([("eve", row(9.0, 9.0, 9.0))])
    assert len(journal.quarantined()) == 3


def test_no_update_is_sent_past_one_that_is_held_back() -> None:
    journal = Journal(journal_id="mark")
    outbox = Outbox(journal, "job", "w", 10.0, bayes().count_records)
    outbox.post(examples(5).to_bytes(), 0.0)
    outbox.take_due(0.0)
    outbox.erase(-examples(1), 1.0)  # 1 is asked back, 2 is held until the verdict
    outbox.post(examples(3).to_bytes(), 1.0)  # trained again
    assert [message.sequence for message in outbox.take_due(1.0)] == [1]
    assert journal.next_send_s() == 11.0, "nothing is due before the withdrawal is repeated"
    outbox.erase(-examples(1), 2.0)
    assert all(isinstance(message, Withdraw) for message in outbox.take_due(2.0))
    outbox.settle_withdrawn(1, 3.0)
    left, empty = outbox.take_due(4.0)
    assert isinstance(left, Update)
    assert isinstance(empty, Update)
    assert (left.sequence, left.delta) == (2, examples(5 + 3 - 2).to_bytes())
    assert (empty.sequence, empty.delta) == (3, examples(0).to_bytes())


def test_updates_are_sent_in_their_order_whenever_they_are_due() -> None:
    journal = Journal(journal_id="mark")
    outbox = Outbox(journal, "job", "w", 10.0, bayes().count_records)
    outbox.post(examples(1).to_bytes(), 5.0)  # its training takes long
    outbox.post(examples(1).to_bytes(), 0.0)
    outbox.post(examples(1).to_bytes(), 7.0)
    assert (outbox.take_due(1.0), journal.next_send_s()) == ([], 5.0)
    assert [message.sequence for message in outbox.take_due(5.0)] == [1, 2]
    assert [message.sequence for message in outbox.take_due(7.0)] == [3]


def test_an_update_is_sent_again_after_the_clock_jumped_back() -> None:
    one = welcomed()
    one.ingest([("ann", row(0.0, 0.5, 1.0))])
    one.handle([], 1e9)
    assert updates(one.handle([assignment(1)], 1e9).messages)  # and lost
    assert any(updates(one.handle([], 1000.0 + 60.0 * n).messages) for n in range(10))


def test_an_answer_is_sent_again_after_the_clock_jumped_back() -> None:
    one = welcomed()
    order = Erase(job="job", worker="w", request="r", owners=(owner_hash(KEY, "ann"),))
    assert "Erased" in kinds(one.handle([order], 1e9).messages)  # and lost
    assert "Erased" in kinds(one.handle([], 1000.0).messages)
    assert "Erased" not in kinds(one.handle([], 1020.0).messages)
    assert "Erased" in kinds(one.handle([], 1030.0).messages)


def test_a_worker_killed_before_it_compacted_compacts_when_it_is_back(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    journal = Journal(tmp_path / "before" / "j.db")
    one = welcomed(journal=journal)
    body = row(0.125, 0.375, 0.625)
    one.ingest([("ann", body)])
    order = Erase(job="job", worker="w", request="r", owners=(owner_hash(KEY, "ann"),))

    def killed() -> bool:
        raise KeyboardInterrupt

    journal.compact = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        one.handle([order], 1.0)
    shutil.copytree(tmp_path / "before", tmp_path / "after")  # what kill −9 leaves
    journal.close()
    again = Journal(tmp_path / "after" / "j.db")
    worker(journal=again).handle([order], 50.0)
    left = b"".join(path.read_bytes() for path in (tmp_path / "after").iterdir())
    again.close()
    assert body not in left


def test_an_erasure_overwrites_also_what_was_evicted_before(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    one = welcomed(journal=journal, scheme_name="newfl")
    body = row(0.125, 0.375, 0.625)
    for number, new in enumerate([("ann", body), ("bob", row(0.0, 0.5, 1.0))], 1):
        one.ingest([new])
        one.handle([assignment(number)], float(number))
    order = Erase(job="job", worker="w", request="r", owners=(owner_hash(KEY, "ann"),))
    assert "Erased" in kinds(one.handle([order], 3.0).messages)
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    journal.close()
    assert body not in left


def test_a_journal_killed_while_it_is_made_has_an_id_afterwards(tmp_path: Path) -> None:
    class Killed(Journal):
        def _fill(self) -> None:
            super()._fill()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Killed(tmp_path / "j.db")
    again = Journal(tmp_path / "j.db")
    journal_id = again.id
    again.close()
    assert journal_id


def test_an_assignment_with_an_impossible_theta_is_declined() -> None:
    one = welcomed()
    one.ingest([("ann", row(0.0, 0.5, 1.0))])
    messages = one.handle([assignment(1, forget_fraction="2")], 1.0).messages
    assert any(isinstance(message, Declined) for message in messages)


def _withdraw(sequence: int) -> Withdraw:
    return Withdraw(job="job", worker="w", incarnation=1, sequence=sequence)


NAN = float("nan")
POISON: dict[str, Any] = {
    "waiting": announce(waiting=2**63),
    "incarnation": announce(incarnation=2**63 - 1),
    "battery": announce(battery=NAN),
    "capacity": announce(capacity_j=NAN),
    "sequence": update(2**63),
    "round": update(1, round=2**63),
    "energy": update(1, energy_j=NAN, round=1),
    "withdraw": _withdraw(2**63),
    "declined": Declined(job="job", worker="w", round=2**63, reason=""),
    "name": announce("\ud800", 0),
}


@pytest.mark.parametrize("name", sorted(POISON))
def test_a_figure_that_cannot_be_stored_harms_only_who_sent_it(name: str) -> None:
    one = joined("w", "honest")
    one.handle([POISON[name], update(1, 2, name="honest", round=1)], 1.0)
    one.handle([], 500.0)
    assert one.workers["honest"].counted == 1


@pytest.mark.parametrize("sequence", [0, -1])
def test_an_update_with_an_impossible_number_is_refused(sequence: int) -> None:
    one = joined()
    assert "Receipt" not in kinds(one.handle([update(sequence)], 1.0).messages)
    assert one.workers["w"].flag == "Update message: sequence is out of bounds"


def test_nobody_earns_more_than_one_or_less_than_nothing() -> None:
    for learned, energy_j in ((-(10**9), 0.0), (0, -1e9)):
        earned = compute_reward(
            RewardWeights(), elapsed_s=0, ttl_s=60, learned=learned, energy_j=energy_j
        )
        assert 0 <= earned <= 1


def test_a_flipped_bit_in_an_update_on_record_is_found_out() -> None:
    body, connect = examples(3).to_bytes(), Connect()
    unnoticed = 0
    for place in range(len(body) - 12, len(body)):
        for bit in range(8):
            one = joined("v", "w", ledger=Ledger(connect=connect))
            one.handle([update(1, 3)], 1.0)
            damaged = bytearray(body)
            damaged[place] ^= 1 << bit
            connect.db.execute("UPDATE updates SET delta = ?", (bytes(damaged),))
            one.reload()  # what was received is also in memory
            try:
                one.handle([], 500.0)
            except BadInput:
                continue  # said, and nothing was folded
            unnoticed += not one.workers["w"].flag
    assert unnoticed == 0


def test_after_a_backup_of_the_ledger_came_back_nothing_waits_for_ever(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.db")
    journal = Journal(journal_id="journal of w")
    one, device = server(ledger), worker(journal=journal, announce_every_s=1.0)

    def talk(now_s: float) -> None:
        step = device.handle((), now_s)
        for _ in range(4):
            step = device.handle(one.handle(step.messages, now_s).messages, now_s)

    def learn(now_s: float) -> None:
        device.ingest([("ann", row(0.0, 0.5, 1.0))])
        talk(now_s)
        talk(now_s + 40.0)

    learn(0.0)
    ledger.checkpoint()
    shutil.copy(tmp_path / "l.db", tmp_path / "backup.db")
    learn(100.0)
    ledger.close()
    ledger = Ledger(tmp_path / "backup.db")
    one = server(ledger)
    for number in range(2, 6):
        learn(number * 100.0)
    one.handle((), 10_000.0)
    waiting = ledger.updates.waiting()
    ledger.close()
    assert not waiting


def test_who_never_replies_uses_up_its_budget_of_charge() -> None:
    one = joined(ttl_s=10.0)
    phone: dict[str, Any] = {"capacity_j": 1000.0}  # 2 % of it are 20 J a day
    one.handle([announce(**phone), update(1, round=1, energy_j=5.0)], 1.0)
    asked = 0
    for number in range(20):
        messages = one.handle([announce(**phone)], 20.0 * number + 20.0).messages
        asked += kinds(messages).count("Assignment")
    assert asked <= 3


def test_an_erasure_under_a_name_that_is_taken_is_refused() -> None:
    one = joined()
    one.erase("request", [b"ann"], 1.0)
    one.erase("request", [b"ann"], 1.0)  # the same again is fine
    with pytest.raises(BadInput, match="request"):
        one.erase("request", [b"bob"], 2.0)


def test_two_versions_never_differ_by_one_erased_person() -> None:
    one = joined(release_batch=3)
    one.handle([update(1, 5, round=1), announce()], 1.0)
    for name in ("first", "second", "third"):
        one.erase(name, [name.encode()], 2.0)
    seen = list(one.handle([update(2, round=2), announce()], 3.0).messages)
    answer = Erased(job="job", worker="w", request="first", examples=1)
    one.handle([answer], 4.0)
    seen += one.handle([update(3, delta=-examples(1), round=3)], 5.0).messages
    versions = [message for message in seen if isinstance(message, Published)]
    assert len(versions) < 2, "one version with the first person, the next one without"


def test_a_removal_that_fails_leaves_the_model_as_the_ledger_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = Ledger()
    one = joined("a", "b", ledger=ledger, rounds=9)
    one.handle([update(1, 3, name="a", round=1), update(1, 2, name="b", round=1)], 1.0)
    before, workers = one.model.digest(), one.workers
    assert not one.model.statistics.is_zero

    def full_disk(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(ledger, "put_workers", full_disk)
    with pytest.raises(OSError, match="no space left"):
        one.remove("a", 2.0)
    assert one.model.digest() == before
    assert one.workers == workers
