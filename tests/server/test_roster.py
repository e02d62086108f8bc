"""The roster: who can be selected, with what is expected of them, in columns as one by one."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.learners import NaiveBayes
from dealfl.protocol import RewardWeights
from dealfl.protocol.messages import Update
from dealfl.server import Rules, WorkerRow
from dealfl.server.predictions import Predictions
from dealfl.server.roster import Roster, note_decline, note_sleep
from tests.server.plain_roster import PlainRoster
from tests.server.test_predictions import LEARNER, said, worker

RULES = (
    Rules(presence_timeout_s=50.0, max_wait_s=100.0, min_waiting=5),
    Rules(presence_timeout_s=500.0, max_wait_s=1e4, min_waiting=3, battery_budget=0.5),
    Rules(
        presence_timeout_s=90.0, max_wait_s=300.0, min_waiting=2, min_examples_per_update=2,
        rewards=RewardWeights(half_example_j=0.05),
    ),
)  # fmt: skip
DEVICES = ("honor", "mi", "box")


def changed(draw: random.Random, row: WorkerRow, now_s: float, sleeps: bool) -> WorkerRow:
    """Return a row after some event."""
    asleep = {
        "per_hour": draw.choice((0.0, 7.3, 5000.0, 1e30)),
        "call_waiting": draw.choice((1, 4, 60)),
        "call_by_s": draw.choice((0.0, 0.0, now_s - 70.0, now_s + 20.0, now_s + 90.0)),
    }
    return replace(
        row,
        waiting=draw.choice((0, 1, 4, 5, 50)),
        held=draw.choice((0, 100)),
        device=draw.choice(DEVICES),
        charging=draw.random() < 0.2,
        training=draw.random() < 0.2,
        fits=draw.random() < 0.9,
        heard_s=None if draw.random() < 0.1 else now_s - draw.choice((0, 30, 49, 400)),
        waiting_since_s=now_s - draw.choice((0.0, 60.0, 99.9, 100.0)),
        spent_j=draw.choice((0.0, 0.5, 1.0, 3.0)),
        spent_since_s=now_s - draw.choice((0.0, 86_390.0)),
        last_energy_j=draw.choice((0.0, 0.7)),
        capacity_j=draw.choice((0.0, 60.0)),
        battery=draw.choice((0.02, 0.3, 1.0)),
        doubts=draw.choice((0, 0, 3)),
        asleep=draw.random() < 0.1,
        rides=draw.random() < 0.1,
        **(asleep if sleeps else {}),
    )


def report(energy_j: float) -> Update:
    return Update(
        job="j", worker="w", incarnation=1, sequence=1, round=1, delta=b"", learned=10,
        operations=640, elapsed_s=0.1, energy_j=energy_j,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_columns_find_what_is_found_worker_by_worker(seed: int) -> None:
    draw, now_s, rules = random.Random(seed), 1e6, RULES[0]
    known, roster, plain = Predictions(NaiveBayes), Roster(), PlainRoster()
    for number in range(40):
        plain[str(number)] = roster[str(number)] = WorkerRow(str(number))
    sizes = set()
    for _ in range(600):
        now_s += draw.choice((0.0, 0.1, 1.0, 10.0, 60.0))
        now_s -= 300.0 if draw.random() < 0.02 else 0.0
        rules = draw.choice(RULES) if draw.random() < 0.02 else rules
        for name in draw.sample(list(roster), draw.choice((0, 1, 3))):
            plain[name] = roster[name] = changed(draw, roster[name], now_s, sleeps=bool(seed % 2))
        if draw.random() < 0.1:
            known.observe(WorkerRow("w", device=draw.choice(DEVICES)), report(draw.random()))
        if draw.random() < 0.02:
            name = f"{draw.randrange(40)}/{draw.random()}"  # one more, somewhere in the order
            plain[name] = roster[name] = changed(draw, WorkerRow(name), now_s, sleeps=False)
        found = roster.find_candidates(rules, now_s, known)
        assert found == plain.find_candidates(rules, now_s, known)
        if not seed % 2:
            assert found == PlainRoster(plain).find_candidates(rules, now_s, known), "no index"
        sizes.add(len(found))
    assert len(sizes) > 5


def test_workers_that_cannot_be_selected_are_not_looked_at_again() -> None:
    looked: list[str] = []

    class Watched(Roster):
        def __getitem__(self, name: str) -> WorkerRow:
            looked.append(name)
            return super().__getitem__(name)

    reasons = (
        {"waiting": 0}, {"training": True}, {"heard_s": -1e9}, {"fits": False}, {"waiting": 2},
        {"capacity_j": 1.0, "spent_j": 1.0},
    )  # fmt: skip
    plain = WorkerRow("w", waiting=9)
    roster = Watched({str(n): replace(plain, name=str(n), **r) for n, r in enumerate(reasons)})  # type: ignore[arg-type]
    assert roster.find_candidates(RULES[0], 1.0) == []
    looked.clear()
    assert roster.find_candidates(RULES[0], 2.0) == []
    assert looked == []
    roster["0"] = replace(plain, name="0")
    assert [one.name for one in roster.find_candidates(RULES[0], 3.0)] == ["0"]
    assert looked == ["0"]


def test_an_index_that_grows_is_made_again() -> None:
    roster, sizes = Roster({"w": WorkerRow("w", waiting=1)}), []
    for moment in range(5_000):
        roster["w"] = replace(roster["w"], heard_s=float(moment), waiting_since_s=float(moment))
        assert roster.find_candidates(RULES[1], float(moment)) == []
        sizes.append(len(roster._later))
    assert max(sizes) < 1_100


def row_of(**other: Any) -> WorkerRow:
    return worker(capacity_j=100.0, heard_s=0.0, **other)


def test_candidates_carry_what_is_expected_of_them() -> None:
    known = Predictions(LEARNER)
    known.observe(worker(), said())
    (one,) = Roster({"w": row_of()}).find_candidates(Rules(), 1.0, known)
    assert one.elapsed_s == pytest.approx(0.5, rel=0.01)
    assert one.energy_j == pytest.approx(0.2, rel=0.01)
    (unknown,) = Roster({"w": row_of()}).find_candidates(Rules(), 1.0)
    assert (unknown.elapsed_s, unknown.energy_j) == (None, None)


def test_a_worker_that_cannot_afford_the_expected_energy_is_not_selected() -> None:
    known = Predictions(LEARNER)
    for _ in range(5):
        known.observe(worker(), said())
    rules = Rules(battery_budget=0.02)  # 2 J
    assert Roster({"w": row_of(spent_j=1.7)}).find_candidates(rules, 1.0, known)
    assert not Roster({"w": row_of(spent_j=1.9)}).find_candidates(rules, 1.0, known)
    assert Roster({"w": row_of(spent_j=1.9, charging=True)}).find_candidates(rules, 1.0, known)
    assert not Roster({"w": row_of(spent_j=1.7, waiting=100)}).find_candidates(rules, 1.0, known)
    dear = row_of(spent_j=1.7, last_energy_j=5.0)
    assert Roster({"w": dear}).find_candidates(rules, 1.0, known), "what it took last says less"
    assert not Roster({"w": replace(dear, device="unheard of")}).find_candidates(rules, 1.0, known)


def test_who_declined_is_not_asked_until_it_announces_itself() -> None:
    row = note_decline(row_of(training=True, waiting=7))
    assert not row.training
    assert row.waiting == 7, "its examples still wait"
    assert Roster({"w": row}).find_candidates(Rules(), 1.0) == []


def test_a_silent_worker_is_charged_what_is_expected() -> None:
    known = Predictions(LEARNER)
    assert known.predict_energy_j(row_of(last_energy_j=3.0)) == 3.0
    known.observe(worker(), said())
    assert known.predict_energy_j(row_of(last_energy_j=3.0)) == pytest.approx(0.2, rel=0.01)


def test_nothing_waits_at_a_worker_that_was_just_sent_to_sleep() -> None:
    """What arrives while it sleeps is forecast from then on."""
    row = note_sleep(WorkerRow("w", waiting=5, waiting_since_s=7.0), 3, 60.0, 100.0)
    assert (row.waiting, row.call_waiting, row.call_by_s) == (0, 3, 160.0)
    assert row.waiting_since_s == 7.0
    assert note_sleep(row, 3, 60.0, 200.0).waiting_since_s == 200.0
