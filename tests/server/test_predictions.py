"""What the server expects of trainings: close after a few, back after a change, hard to poison."""

import random
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import msgspec
import pytest

from dealfl.learners import NaiveBayes, TikhonovClassifier
from dealfl.power import PHONES, PhoneSpending, Training
from dealfl.protocol.bounds import problem_of
from dealfl.protocol.messages import Update
from dealfl.server import Ledger, Server, WorkerRow
from dealfl.server.predictions import Predictions
from tests.federation.parts import announce, server, update

LEARNER = TikhonovClassifier
PER_EXAMPLE = 35_000


class Unmeasured(TikhonovClassifier):
    """Nobody knows what it costs on a phone."""

    cycles = None  # type: ignore[assignment]


def said(**figures: Any) -> Update:
    plain = {"learned": 10, "operations": 10 * PER_EXAMPLE, "elapsed_s": 0.5, "energy_j": 0.2}
    return Update(
        job="job", worker="w", incarnation=1, sequence=1, round=1, delta=b"", **(plain | figures)
    )


def worker(device: str = "box", waiting: int = 10, **other: Any) -> WorkerRow:
    return WorkerRow("w", waiting=waiting, device=device, **other)


def trained(row: WorkerRow, slowness: float = 1.0, draw: random.Random | None = None) -> Update:
    """Return the report of a phone, with a tenth of noise."""
    phone = PHONES[row.device]
    operations = row.waiting * PER_EXAMPLE
    spent = PhoneSpending(
        replace(phone, cycle_factor=phone.cycle_factor * slowness),
        LEARNER.cycles.of_worker,
    ).of(Training(learned_operations=operations, sent_bytes=20_000))
    noise = draw.gauss(1.0, 0.1) if draw else 1.0
    return said(
        learned=row.waiting,
        operations=operations,
        elapsed_s=spent.compute.elapsed_s * max(noise, 0.5),
        energy_j=spent.whole.total_j,
    )


def errors(
    known: Predictions, row: Callable[[], WorkerRow], rounds: int, slowness: float, seed: int = 1
) -> list[float]:
    draw, found = random.Random(seed), []
    for _ in range(rounds):
        one = row()
        expected, came = known.predict(one), trained(one, slowness)
        if expected is not None:
            found.append(abs(expected.elapsed_s / came.elapsed_s - 1.0))
        known.observe(one, trained(one, slowness, draw))
    return found


@pytest.mark.parametrize("device", PHONES)
def test_times_are_expected_within_a_tenth_after_a_few_rounds_and_after_a_change(
    device: str,
) -> None:
    known, sizes = Predictions(LEARNER), random.Random(0)

    def row() -> WorkerRow:
        return worker(device, waiting=sizes.randint(10, 500))  # the clock is the same

    assert median(errors(known, row, 15, 1.7)[5:]) <= 0.10
    errors(known, row, 60, 1.7)
    assert median(errors(known, row, 5, 3.4)) > 0.10, "the change is no change"
    errors(known, row, 35, 3.4, seed=2)
    assert median(errors(known, row, 20, 3.4, seed=3)) <= 0.10


def test_a_known_phone_is_expected_before_it_ever_trained() -> None:
    known = Predictions(LEARNER)
    known.observe(worker("box"), said())  # how many operations an example takes
    one = worker("mi", waiting=5000)
    expected = known.predict(one)
    assert expected is not None
    came = trained(one)
    assert expected.elapsed_s == pytest.approx(came.elapsed_s, rel=0.2)
    assert expected.energy_j == pytest.approx(came.energy_j, rel=0.5)
    assert known.predict(worker("unheard of")) is None
    assert Predictions(Unmeasured).predict(one) is None


def test_any_other_device_is_expected_from_its_first_report_on() -> None:
    known = Predictions(LEARNER)
    assert known.predict(worker()) is None
    known.observe(worker(), said())
    expected = known.predict(worker())
    assert expected is not None
    assert expected.elapsed_s == pytest.approx(0.5, rel=0.01)
    assert expected.energy_j == pytest.approx(0.2, rel=0.01)
    double = known.predict(worker(waiting=20))
    assert double is not None
    assert double.elapsed_s > expected.elapsed_s


def test_what_will_be_evicted_is_part_of_the_work() -> None:
    known = Predictions(LEARNER)
    for _ in range(40):
        known.observe(worker(held=100), said(learned=8, evicted=2))
    few = known.predict(worker(waiting=8, held=100))
    many = known.predict(worker(waiting=8, held=10_000))
    assert few is not None
    assert many is not None
    assert many.elapsed_s > 3 * few.elapsed_s


@pytest.mark.parametrize(
    "absurd",
    [
        {"elapsed_s": 0.0}, {"elapsed_s": -1.0}, {"elapsed_s": 1e18}, {"elapsed_s": float("nan")},
        {"operations": 0}, {"operations": -5}, {"operations": 2**61}, {"energy_j": -1.0},
        {"energy_j": 1e17}, {"energy_j": float("inf")}, {"learned": 0}, {"learned": -10**18},
        {"learned": 10**12}, {"evicted": -1}, {"evicted": 10**12},
    ],
)  # fmt: skip
def test_an_impossible_report_is_not_learned_from(absurd: dict[str, float]) -> None:
    known = Predictions(LEARNER)
    known.observe(worker(), said())
    before = known.predict(worker())
    known.changes()
    report = said(**absurd)
    if problem_of(report) is None:  # else the server refuses it on entry
        known.observe(worker(), report)
    assert known.predict(worker()) == before
    assert not known.changes()


def test_one_liar_among_ten_moves_a_law_by_little() -> None:
    known = Predictions(LEARNER)
    for number in range(500):
        lie = {"elapsed_s": 9e5, "energy_j": 9e5} if number % 10 == 9 else {}
        known.observe(worker(), said(**lie))
        expected = known.predict(worker())
        assert expected is not None
        assert expected.elapsed_s < 1.0, number
        assert expected.energy_j < 0.4, number


def test_wild_reports_leave_figures_that_can_be_computed_with() -> None:
    known, draw = Predictions(LEARNER), random.Random(3)
    for _ in range(3000):
        wild = said(
            learned=int(10 ** draw.uniform(0, 9)),
            evicted=int(10 ** draw.uniform(0, 9)) * draw.choice((0, 1)),
            operations=int(10 ** draw.uniform(0, 15)),
            elapsed_s=10 ** draw.uniform(-12, 6),
            energy_j=10 ** draw.uniform(-12, 6) * draw.choice((0, 1)),
        )
        row = worker(draw.choice(("mi", "box")), held=draw.choice((0, 1, 10**6)))
        known.observe(row, wild)
        expected = known.predict(row)
        assert expected is not None
        assert 0.0 <= expected.elapsed_s < 1e30
        assert 0.0 <= expected.energy_j < 1e30


def test_one_lie_about_the_work_moves_it_by_little() -> None:
    known = Predictions(LEARNER)
    for _ in range(20):
        known.observe(worker(held=50), said(evicted=1))
    before = known.predict(worker(held=50))
    known.observe(worker(held=1), said(operations=10**15, evicted=10**9))
    after = known.predict(worker(held=50))
    assert before is not None
    assert after is not None
    assert after.elapsed_s < 1.6 * before.elapsed_s


def test_kinds_without_end_do_not_fill_the_memory() -> None:
    known = Predictions(LEARNER)
    for number in range(1000):
        known.observe(worker(f"made up {number}"), said())
    known.observe(worker("x" * 10_000), said())
    assert sum(map(len, known.changes().values())) < 300_000
    assert known.predict(worker("made up 999")) is not None
    for number in range(1000):
        known.predict(worker(f"asked for {number}"))
    assert len(known._outlooks) < 1000


def test_a_restart_continues_and_a_damaged_state_begins_from_nothing() -> None:
    known = Predictions(LEARNER)
    for _ in range(5):
        known.observe(worker("mi", held=50), said(evicted=3))
    again = Predictions(LEARNER)
    good = known.changes()
    again.restore(good)
    assert again.predict(worker("mi", held=50)) == known.predict(worker("mi", held=50))
    again.observe(worker("mi"), said())
    known.observe(worker("mi"), said())
    assert again.changes() == known.changes()
    header, device = good["header"], good["device mi"]
    damaged = [
        *({"header": bad} for bad in (b"", b"{", b"null", header[:-1], b"[3" + header[2:])),
        {"header": header.replace(b"tikhonov", b"kikhonov")},
        *({"device mi": bad} for bad in (b"[]", device[:-9], device.replace(b'"time"', b'"tim"'))),
    ]
    for bad in damaged:
        again.restore(good | bad)
        assert again.predict(worker("box")) is None
        fresh, row = Predictions(LEARNER), worker("mi", waiting=0)
        assert again.predict(row) == fresh.predict(row)
        assert again.changes()["device mi"] == b"", "what cannot be read is deleted"


def test_a_report_changes_the_part_of_its_device_and_the_oldest_device_is_dropped() -> None:
    known, stored = Predictions(LEARNER), dict[str, bytes]()
    for number in range(300):
        known.observe(worker(f"kind {number}"), said())
        changed = known.changes()
        assert len(changed) == (2 if number < 256 else 3), "the device, all, and one dropped"
        stored = {name: part for name, part in (stored | changed).items() if part}
        assert sum(map(len, changed.values())) < 2_000
    again = Predictions(LEARNER)
    again.restore(dict(sorted(stored.items(), reverse=True)))
    for one in (known, again):
        one.observe(worker("new"), said())
    assert again.changes() == known.changes(), "both drop the device that was seen first"


def test_the_error_of_what_was_expected_is_kept() -> None:
    known = Predictions(LEARNER)
    known.observe(worker(), said())
    assert known.median_error is None
    known.expect(worker())
    known.observe(worker(waiting=0), said(elapsed_s=1.0))
    assert known.median_error == pytest.approx(0.5, abs=0.02)
    known.observe(worker(), said())
    assert known.median_error == pytest.approx(0.5, abs=0.02), "nothing was expected of it"


# -- in a server --------------------------------------------------------------------------------


def played(one: Server, rounds: range, seconds_per_example: float) -> list[float]:
    """Let a worker train in every round; return the errors of what the server expected."""
    found = []
    for number in rounds:
        waiting = 20 + (37 * number) % 100
        one.handle([announce("w", 1, waiting=waiting, device="box")], 10.0 * number)
        elapsed_s = 0.1 + waiting * seconds_per_example
        expected = one.predictions.predict(one.workers["w"])
        if expected is not None:
            found.append(abs(expected.elapsed_s / elapsed_s - 1.0))
        reply = update(
            number, waiting, round=number, operations=640 * waiting,
            elapsed_s=elapsed_s, energy_j=0.1,
        )  # fmt: skip
        one.handle([announce("w", 1, waiting=0, device="box"), reply], 10.0 * number + 5.0)
    return found


def test_a_server_learns_times_and_resumes_after_a_restart_and_a_change() -> None:
    ledger = Ledger()
    one = server(ledger)
    one.handle([announce("w", 0, waiting=0)], 0.0)
    played(one, range(1, 6), 0.02)
    assert median(played(one, range(6, 12), 0.02)) <= 0.10
    again = server(ledger)
    row = again.workers["w"]
    row = msgspec.structs.replace(row, waiting=9)
    assert again.predictions.predict(row) == one.predictions.predict(row)
    played(again, range(12, 60), 0.02)
    assert median(played(again, range(60, 64), 0.04)) > 0.10
    played(again, range(64, 100), 0.04)
    assert median(played(again, range(100, 110), 0.04)) <= 0.10


def test_a_worker_that_does_not_answer_has_spent_what_is_expected() -> None:
    one = server(ttl_s=60.0)
    one.handle([announce("w", 0, waiting=0)], 0.0)
    played(one, range(1, 6), 0.02)
    before = one.workers["w"].spent_j
    one.handle([announce("w", 1, waiting=30, device="box")], 100.0)
    expected = one.predictions.predict(one.workers["w"])
    assert expected is not None
    one.handle([], 100.0 + 60.0)
    assert one.workers["w"].spent_j == pytest.approx(before + expected.energy_j)


def test_reviews_of_evictions_belong_to_the_law_of_trainings_that_evict() -> None:
    """Trainings with and without an eviction take turns; a review takes ten times as long."""
    known = Predictions(NaiveBayes)
    row = WorkerRow("w", waiting=10, held=100, device="another")
    for number in range(1, 60):
        evicted = number % 2
        report = Update(
            job="j", worker="w", incarnation=1, sequence=number, round=number, delta=b"",
            learned=10, evicted=evicted, operations=640 + 64 * evicted,
            elapsed_s=0.004 + 0.04 * evicted,
        )  # fmt: skip
        known.observe(row, report)
    assert known.median_law_error is not None
    assert known.median_law_error < 0.15
