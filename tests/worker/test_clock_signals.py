"""The signals of a worker to its clock: +1 when it learns, −1 when it forgets, 0 at the end."""

from typing import Any

import pytest

from dealfl.erasure import owner_hash
from dealfl.learners import cycles_of
from dealfl.power import PHONES, PhoneSpending, Training
from dealfl.protocol.messages import Erase
from dealfl.worker import PhoneMeter
from tests.federation.parts import KEY, FixedMeter, assignment, row, updates, welcomed


class RecordedClock(FixedMeter):
    """Notes signals in the order of the work that a meter sees."""

    def __init__(self) -> None:
        super().__init__()
        self.trainings: list[list[int]] = []

    def start(self) -> None:
        self.trainings.append([])

    def signal(self, signal: int, /) -> None:
        self.trainings[-1].append(signal)


def trained(scheme: str, fraction: str = "0.5") -> tuple[RecordedClock, list[tuple[int, int]]]:
    """Train three times; return the clock, and what each training learned and evicted."""
    clock = RecordedClock()
    one = welcomed(meter=clock, clock=clock, scheme_name=scheme, forget_fraction=fraction)
    done = []
    for number in range(1, 4):
        one.ingest([(f"owner {number}/{n}", row(0.0, 0.5, 1.0)) for n in range(4)])
        update = updates(one.handle([assignment(number)], float(number)).messages)[-1]
        done.append((update.learned, update.evicted))
    return clock, done


@pytest.mark.parametrize("scheme", ["deal", "incremental"])
def test_a_clock_sees_what_was_learned_and_forgotten(scheme: str) -> None:
    clock, done = trained(scheme)
    assert clock.trainings == [
        [+1] * (learned > 0) + [-1] * (evicted > 0) + [0] for learned, evicted in done
    ]
    assert any(evicted for _, evicted in done) == (scheme == "deal")


def test_training_from_scratch_forgets_nothing() -> None:
    clock, _ = trained("original")
    assert clock.trainings == [[+1, 0]] * 3


def test_an_erasure_forgets() -> None:
    clock = RecordedClock()
    one = welcomed(meter=clock, clock=clock)
    one.ingest([("anna", row(0.0, 0.5, 1.0)), ("ben", row(1.0, 0.5, 1.0))])
    one.handle([assignment(1)], 0.0)
    erase = Erase(job="job", worker="", request="r1", owners=(owner_hash(KEY, "anna"),))
    one.handle([erase], 1.0)
    assert clock.trainings == [[+1, 0], [-1, 0]]


def test_the_clock_is_released_when_learning_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = RecordedClock()
    one = welcomed(meter=clock, clock=clock)
    one.ingest([("anna", row(0.0, 0.5, 1.0))])

    def fail(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("dealfl.worker.schemes.Scheme.change", fail)
    with pytest.raises(MemoryError):
        one.handle([assignment(1)], 0.0)
    assert clock.trainings == [[+1, 0]]


def test_a_phone_meter_integrates_what_its_clock_did() -> None:
    done = Training(forgotten_operations=10**9)
    elapsed_s = []
    for signals in ((), (+1,), (-1,)):
        meter = PhoneMeter(PhoneSpending(PHONES["honor"], cycles_of("naive_bayes")))
        meter.start()
        for signal in signals:
            meter.signal(signal)
        elapsed_s.append(meter.cost(done).elapsed_s)
    free_s, learning_s, forgetting_s = elapsed_s
    assert learning_s == free_s, "a signal for other work does not change the clock of this work"
    assert forgetting_s == pytest.approx(free_s * 2112 / 1402)
