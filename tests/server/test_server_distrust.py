"""What a worker says is believed only as far as it can be true; the server never falls over it."""

from pathlib import Path
from typing import Any

import pytest

from dealfl.exact import Statistics
from dealfl.learners import LEARNERS, Tikhonov
from dealfl.learners.checks import Subject
from dealfl.protocol.messages import Receipt, Refusal, Update, Welcome
from dealfl.server import Ledger, Server
from tests.federation.parts import announce, bayes, examples, joined, kinds, server, update
from tests.learners.subjects import SUBJECTS

LIES = [
    pytest.param(name, place, id=f"{name} {place}")
    for name, subject in SUBJECTS.items()
    for place in range(len(subject.impossible))
]


def test_every_learner_gets_every_lie() -> None:
    assert {subject.name for subject in SUBJECTS.values()} == set(LEARNERS)


def told(one: Server, name: str, sequence: int, delta: Statistics) -> Update:
    incarnation = one.workers[name].incarnation
    return update(sequence, name=name, delta=delta, incarnation=incarnation)


def honest(subject: Subject) -> Statistics:
    model = subject.make()
    subject.learn(model, range(subject.pool))
    return model.statistics


@pytest.mark.parametrize(("name", "place"), LIES)
def test_a_lie_is_found_out_and_leaves_the_model_and_the_honest_are_unaffected(
    name: str, place: int
) -> None:
    subject = SUBJECTS[name]
    truth, lie = honest(subject), subject.impossible[place]
    one = joined("honest", "liar", make=subject.make)
    one.handle([told(one, "honest", 1, truth), told(one, "liar", 1, truth)], 1.0)
    one.handle([], 100.0)
    assert one.model.statistics == truth + truth
    step = one.handle([told(one, "liar", 2, lie - truth), told(one, "honest", 2, truth)], 101.0)
    step = one.handle([], 200.0) if not one.workers["liar"].flag else step
    assert one.workers["liar"].flag.startswith("diverged")
    assert one.workers["honest"].flag == ""
    assert one.model.statistics == truth + truth, "only what the honest one said is left"
    one.handle([announce("liar", 1, subject.make)], 201.0)
    again = [told(one, "liar", 1, truth), told(one, "honest", 3, truth)]
    one.handle(again, 202.0)
    one.handle([], 500.0)
    assert one.model.statistics == truth + truth + truth + truth, "it may begin anew, honestly"


def test_a_worker_that_was_found_out_gets_a_new_incarnation() -> None:
    one = joined()
    messages = one.handle([update(1, delta=-examples(1), round=1)], 1.0).messages
    assert [m.incarnation for m in messages if isinstance(m, Welcome)] == [2]
    assert one.model.statistics.is_zero


def refused(one: Server, message: Update) -> str:
    """Return why an update was refused, and see to it that everything else goes on."""
    before = one.model.statistics
    messages = one.handle([message, update(1, 2, name="honest", round=1)], 1.0).messages
    (refusal,) = [m for m in messages if isinstance(m, Refusal)]
    assert [m.worker for m in messages if isinstance(m, Receipt)] == ["honest"]
    one.handle([], 500.0)
    assert one.model.statistics == before + examples(2)
    assert one.workers["w"].flag == refusal.reason
    return refusal.reason


def test_an_update_of_the_wrong_shape_is_refused_and_flagged() -> None:
    other = Tikhonov(3, feature_bound=1.0, target_bound=1.0)
    one = joined("w", "honest")
    assert "tikhonov" in refused(one, update(1, delta=other.statistics))


def test_an_update_of_other_settings_is_refused_and_flagged() -> None:
    other = type(bayes())(3, ["a", "b"], feature_bound=1.0, fraction_bits=9)
    one = joined("w", "honest")
    assert "fraction_bits" in refused(one, update(1, delta=other.statistics))


@pytest.mark.parametrize("body", [b"", b"nonsense", b"DEALSTAT", b"\xff" * 1000])
def test_an_update_that_is_no_statistics_is_refused_and_flagged(body: bytes) -> None:
    plain = update(1)
    message = Update(
        job="job", worker="w", incarnation=1, sequence=1, round=None, delta=body,
        learned=plain.learned,
    )  # fmt: skip
    assert refused(joined("w", "honest"), message)


def test_an_update_of_another_protocol_is_refused_and_flagged() -> None:
    assert "protocol version 0" in refused(joined("w", "honest"), update(1, protocol=0))


def test_an_update_of_another_incarnation_is_refused_and_flagged() -> None:
    assert "incarnation 7" in refused(joined("w", "honest"), update(1, incarnation=7))


@pytest.mark.parametrize("counted", [True, False])
def test_the_same_key_with_other_content_is_refused_and_what_the_worker_said_leaves(
    counted: bool,
) -> None:
    one = joined("w", "honest")
    one.handle([update(1, 3, round=1)], 0.5)
    if counted:
        one.handle([], 100.0)
    messages = one.handle([update(1, 4)], 101.0).messages
    assert [m.reason for m in messages if isinstance(m, Refusal)] == [
        "another update with this sequence exists"
    ]
    assert [m.incarnation for m in messages if isinstance(m, Welcome)] == [2]
    assert one.model.statistics.is_zero
    one.handle([update(1, 3, incarnation=2)], 102.0)
    one.handle([], 500.0)
    assert one.model.statistics == examples(3)


def test_an_absurd_delta_harms_nobody_else() -> None:
    one = joined("w", "honest")
    absurd = examples(1)
    for _ in range(54):
        absurd = absurd + absurd  # twice that is more than 64 bits hold
    said = [update(1, delta=absurd), update(2, delta=absurd)]
    one.handle([*said, update(1, 2, name="honest", round=1)], 1.0)
    one.handle([], 500.0)
    assert one.model.statistics == examples(2)
    assert one.workers["w"].incarnation > 1


def test_nothing_of_a_worker_that_was_dropped_is_left_in_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    one = joined("w", "honest", ledger=ledger)
    one.handle([update(1, 3), update(3, 2), update(1, 2, name="honest")], 1.0)
    one.handle([], 100.0)
    assert ledger.find_sum("w") is not None
    pages = ledger.execute("SELECT content FROM pages WHERE owner = 'w'").fetchall()
    assert ledger.updates.find("w", 1, 3) is not None, "it waits for the second"
    one.handle([update(2, delta=-examples(9))], 101.0)
    one.handle([], 200.0)
    assert one.workers["w"].flag.startswith("diverged")
    for sequence in (1, 2, 3):
        assert ledger.updates.find("w", 1, sequence) is None
        needle = examples(sequence).to_bytes()
        others = examples(2).to_bytes()  # the sum of the honest worker, and the total
        assert needle == others or needle not in (tmp_path / "ledger.db").read_bytes()
    assert ledger.find_sum("w") is None
    assert not any(page in (tmp_path / "ledger.db").read_bytes() for (page,) in pages)
    assert ledger.updates.find("honest", 1, 1) is not None


def test_two_workers_under_one_name_are_flagged_and_the_last_who_joined_is_the_worker() -> None:
    one = joined()
    one.handle([update(1, 3, round=1)], 1.0)
    messages = one.handle([announce(incarnation=0, journal_id="another")], 2.0).messages
    assert [m.incarnation for m in messages if isinstance(m, Welcome)] == [2]
    assert one.model.statistics.is_zero, "the journal of the first one is lost, or lies elsewhere"
    first_again = one.handle([announce(incarnation=1)], 3.0).messages
    assert "Welcome" not in kinds(first_again)
    assert one.workers["w"].flag == "two journals use this name"
    assert "Refusal" in kinds(one.handle([update(2, 1)], 4.0).messages)


def test_a_worker_of_a_later_incarnation_than_the_ledger_knows_begins_another() -> None:
    one = joined()
    one.handle([update(1, 3, round=1)], 1.0)
    messages = one.handle([announce(incarnation=5)], 2.0).messages
    assert [m.incarnation for m in messages if isinstance(m, Welcome)] == [6]
    assert one.model.statistics.is_zero


def test_a_worker_with_an_old_protocol_is_never_selected() -> None:
    one = server()
    one.handle([announce("old", 0, protocol=0)], 0.0)
    assert not one.workers["old"].fits
    assert one.reader.open_round() is None


@pytest.mark.parametrize(
    "message",
    [
        update(1, round=999),
        update(1, round=-5),
        update(1, learned=2**70),
        update(1, energy_j=float("inf"), round=1),
        update(10**6),
        announce(waiting=0),
        announce(incarnation=0),
        announce(battery=-3.0),
        announce(capacity_j=float("inf")),
    ],
)
def test_odd_figures_do_no_harm(message: Any) -> None:
    ledger = Ledger()
    one = joined("w", "honest", ledger=ledger)
    one.handle([message, update(1, 2, name="honest", round=1)], 1.0)
    one.handle([], 500.0)
    one.handle([announce("honest")], 501.0)
    assert ledger.find_sum("honest") == examples(2)


def test_an_old_message_of_a_lost_journal_does_not_lock_its_worker_out() -> None:
    """The first announcement, from a journal lost since, comes after that of the second."""
    one = server(presence_timeout_s=90.0)
    one.handle([announce(incarnation=0, journal_id="second")], 0.0)
    one.handle([announce(incarnation=0, journal_id="first")], 1.0)
    soon = one.handle([announce(incarnation=1, journal_id="second")], 2.0)
    assert "Welcome" not in kinds(soon.messages), "the first may be the one that is alive"
    later = one.handle([announce(incarnation=1, journal_id="second")], 62.0)
    (welcome,) = [m for m in later.messages if isinstance(m, Welcome)]
    assert welcome.journal_id == "second"
    one.handle([announce(incarnation=welcome.incarnation, journal_id="second")], 63.0)
    assert one.workers["w"].journal_id == "second"
    one.handle([announce(incarnation=1, journal_id="first")], 64.0)
    assert one.workers["w"].journal_id == "second", "the first is too late"
