"""A server that plays real workers and the keyholder against each other sees nobody alone."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from dealfl.erasure import owner_hash
from dealfl.errors import BadInput
from dealfl.jobs import PrivacyKeys
from dealfl.keyholder import (
    Keyholder,
    KeyholderFolder,
    KeyholderJournal,
    KeyholderRules,
    KeyholderSettings,
)
from dealfl.learners import NaiveBayes, Rows
from dealfl.masks import (
    SERVER,
    Asker,
    Masker,
    Ring,
    Total,
    draw_private_key,
    header_of,
)
from dealfl.network.processes import read_enrolment
from dealfl.protocol import (
    Announce,
    Assignment,
    Erase,
    MaskedUpdate,
    Message,
    Open,
    Opened,
    Position,
    Verdict,
    Welcome,
)
from dealfl.server import masked
from dealfl.worker import Journal, Worker
from tests.federation.parts import KEY, FixedMeter
from tests.keyholder.chaos import check
from tests.keyholder.openings import find_isolated
from tests.keyholder.parts import COHORT, Table
from tests.keyholder.test_attacks import fresh_cohort

FEATURES = 64
MOST = 6  # headers in a request


def make() -> NaiveBayes:
    return NaiveBayes(FEATURES, ["a", "b"], feature_bound=1.0, fraction_bits=4)


class Led:
    """An honest worker that a malicious server leads; each example has a feature of its own."""

    features: dict[int, str]

    def __init__(self, name: str, keyholder: Keyholder, features: dict[int, str]) -> None:
        self.name, self.features = name, features
        self.sent: dict[int, MaskedUpdate] = {}
        self.worker = Worker(
            "job", name, make, Journal(), FixedMeter(), key=KEY, forget_fraction="0",
            masker=Masker(keyholder.enrol(name)),
        )  # fmt: skip
        self._now_s, self._round, self._position, self._erased = 0.0, 0, Position(0, b""), 0
        first = self.worker.handle((), 0.0).messages
        announced = next(one for one in first if isinstance(one, Announce))
        self._session = announced.session
        self.hear(
            Welcome(job="job", worker=name, epoch="e1", journal_id=announced.journal_id,
                    session=self._session, incarnation=1, erased=self._position)
        )  # fmt: skip

    def hear(self, *messages: Message) -> None:
        self._now_s += 1.0
        for message in self.worker.handle(messages, self._now_s).messages:
            if isinstance(message, MaskedUpdate):
                self.sent[message.sequence] = message

    def learn(self, owner: str) -> None:
        feature = len(self.features)
        self.features[feature] = self.name
        row = [float(number == feature) for number in range(FEATURES)]
        self.worker.ingest([(owner, Rows.encode(row, "a"))])
        self._round += 1
        self.hear(
            Assignment(job="job", worker=self.name, epoch="e1", round=self._round, deadline_s=1e6,
                       erased=self._position)
        )  # fmt: skip

    def erase(self, owner: str) -> None:
        self._erased += 1
        after = Position(self._erased, bytes([self._erased]) * 32)
        self.hear(
            Erase(job="job", worker=self.name, request=f"r{self._erased}",
                  owners=(owner_hash(KEY, owner),), before=self._position, after=after)
        )  # fmt: skip
        self._position = after

    def count(self, *sequences: int) -> None:
        """Say that updates have counted and cannot be withdrawn."""
        self.hear(*[
            Verdict(job="job", worker=self.name, session=self._session, incarnation=1,
                    sequence=sequence, withdrawn=False, term="t")
            for sequence in sequences
        ])  # fmt: skip


def test_an_erasure_is_never_in_an_earlier_update_than_what_it_erases() -> None:
    features: dict[int, str] = {}
    keyholder = Keyholder(
        "keyholder", KeyholderJournal(), draw_private_key(), KeyholderRules(COHORT), jobs=["job"]
    )
    asker = Asker(keyholder.enrol("server", SERVER))
    schema = make().schema
    ring, shown = Ring(schema), list[dict[int, int]]()

    def ask(updates: list[MaskedUpdate]) -> str:
        request = Open(
            job="job", worker="keyholder", epoch="e1", number=len(shown) + 1, cohort=COHORT,
            schema=schema.canonical(), plus=tuple(map(header_of, updates)),
        )  # fmt: skip
        step = keyholder.handle([asker.seal(request)], 0.0)
        answer = asker.read(next(one for one in step.messages if isinstance(one, Opened)))
        assert answer is not None
        if not answer.refused:
            total = Total(ring)
            for update in updates:
                total.add(ring.unpack(update.delta))
            sums = ring.statistics(total.subtract(answer.masks).vector())["sums"].to_dict()
            shown.append({cell % FEATURES: value for cell, value in sums.items()})
        return answer.refused

    first, second = (
        [Led(f"{letter}{number}", keyholder, features) for number in range(COHORT)]
        for letter in "pq"
    )
    victim = Led("victim", keyholder, features)
    for led in first:
        led.learn("early")
        led.erase("early")  # update 1 is being withdrawn, update 2 waits for the verdict
        led.learn("late")  # update 3
        led.erase("late")
        assert 3 not in led.sent, "it would contain what update 2 takes out"
        led.count(1)
        assert sorted(led.sent) == [1, 2, 3]
    for led in second:
        led.learn("other")
    victim.learn("person")
    for led in second:
        led.count(1)
        led.erase("other")
    ask([led.sent[number] for led in first for number in (1, 2)]
        + [led.sent[1] for led in [*second, victim]])  # fmt: skip
    ask([led.sent[3] for led in first] + [led.sent[2] for led in second])
    assert find_isolated(shown, features, COHORT) is None


def test_new_epochs_open_nobody_alone_before_the_time() -> None:
    table = Table(alone_after_s=1000.0)
    assert table.ask([table.header("w7", 1, {50: 1})]).refused
    table.now_s = 2000.0
    assert not table.ask(fresh_cohort(table, 0, 1)).refused
    for number, epoch in enumerate(("e2", "e3"), 2):
        table.now_s += 1.0
        alone = table.header("w0", 1, {30 + number: 1}, incarnation=number, epoch=epoch)
        assert table.ask([alone], epoch=epoch, number=1).retry_s == 1000.0 - (number - 1)


def test_a_worker_that_is_enrolled_again_disturbs_no_opening_and_no_order() -> None:
    table = Table()
    request = table.request(fresh_cohort(table, 0, 1))
    first = table.send(request)  # the answer is lost
    table.maskers["w0"] = Masker(table.keyholder.enrol("w0", again=True))
    assert table.send(request) == first
    late = table.header("w0", 3, {0: -1, 5: 1})
    table.number = 1
    assert not table.ask([late, *fresh_cohort(table, 10, 2)[1:]]).refused
    table.maskers["w0"] = Masker(table.keyholder.enrol("w0", again=True))
    refused = table.ask([table.header("w0", 2, {0: 1}), *fresh_cohort(table, 20, 3)[1:]])
    assert "w0: it is not later than what was opened" in refused.refused


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("step", ["forget_openings", "put_key_name", "claim"])
def test_a_restore_that_is_killed_never_leaves_the_old_key_with_an_empty_journal(
    tmp_path: Path, step: str
) -> None:
    vault = KeyholderFolder(tmp_path / "vault")
    vault.create(KeyholderSettings(cohort=2))
    vault.enrol(["w1", "w2"], server=False, again=False)
    with vault.open() as keyholder:
        key = keyholder.key_name
    with mock.patch.object(KeyholderJournal, step, side_effect=_Killed), pytest.raises(_Killed):
        vault.restore()
    with pytest.raises(BadInput, match=f"belongs to the key {key}"), vault.open():
        pass
    vault.restore()
    with vault.open() as keyholder:
        assert keyholder.key_name != key


def test_a_job_file_cannot_switch_masks_off(tmp_path: Path) -> None:
    keyholder = Keyholder("keyholder", KeyholderJournal(), draw_private_key(), KeyholderRules(2))
    enrolment, journal = keyholder.enrol("w1"), Journal()
    enrolment.write(tmp_path / "keyholder.enrolment")
    with pytest.raises(BadInput, match="updates would be sent unmasked"):
        read_enrolment(PrivacyKeys(), tmp_path, None, "worker", "w1")
    Worker("job", "w1", make, journal, FixedMeter(), key=KEY, masker=Masker(enrolment))
    with pytest.raises(BadInput, match="would show its full sum"):
        Worker("job", "w1", make, journal, FixedMeter(), key=KEY)


def test_sums_leave_in_several_requests_if_one_cannot_contain_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = max(len(request.minus) for request in check(5_085, steps=50).opened)
    monkeypatch.setattr(masked, "MAX_HEADERS", MOST)
    leaving = [len(request.minus) for request in check(5_085, steps=50).opened]
    assert 1 < max(leaving) <= MOST < needed
