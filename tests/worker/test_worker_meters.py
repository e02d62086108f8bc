"""Meters of a worker: what it did becomes a cost, modelled or measured."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dealfl.errors import DealError
from dealfl.learners import cycles_of
from dealfl.power import PHONES, Kind, PhoneSpending, Reading, Source, Training, make_meter
from dealfl.protocol.messages import Declined, Published
from dealfl.worker import Cost, Device, MeasuredMeter, PhoneMeter
from tests.federation.parts import FixedMeter, assignment, bayes, row, updates, welcomed
from tests.power.test_meter_sysfs import supply, tree, zone


class Noting(FixedMeter):
    """Notes what was done."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[Training] = []
        self.starts = 0

    def start(self) -> None:
        self.starts += 1

    def cost(self, training: Training) -> Cost:
        self.done.append(training)
        return super().cost(training)


def rows(count: int, first: int = 0) -> list[tuple[str, bytes]]:
    return [(f"owner {first + n}", row(0.0, 0.5, 1.0)) for n in range(count)]


def test_learning_and_forgetting_are_distinguished_with_the_bytes_they_took() -> None:
    meter = Noting()
    one = welcomed(meter=meter, forget_fraction="0.5")
    one.ingest(rows(10))
    one.handle([assignment(1)], 0.0)
    one.ingest(rows(4, first=10))
    model = bayes().statistics.to_bytes()
    news = Published(job="job", worker="", version=3, digest="", statistics=model)
    sent = updates(one.handle([news, assignment(2)], 1.0).messages)[-1]
    first, second = meter.done
    assert meter.starts == 2
    assert first.learned_operations > 0
    assert first.forgotten_operations == 0
    assert (first.scratch_operations, first.fetched_bytes) == (first.learned_operations, 0)
    assert second.learned_operations == pytest.approx(0.4 * first.learned_operations)
    assert second.forgotten_operations == pytest.approx(0.5 * first.learned_operations)
    assert second.scratch_operations == second.learned_operations * 9 / 4
    assert second.fetched_bytes == len(model)
    assert second.sent_bytes == len(sent.delta)
    assert sent.operations == second.operations


def test_a_model_is_fetched_once() -> None:
    meter = Noting()
    one = welcomed(meter=meter)
    model = bayes().statistics.to_bytes()
    news = Published(job="job", worker="", version=3, digest="", statistics=model)
    for number in (1, 2):
        one.ingest(rows(1, first=number))
        one.handle([news, assignment(number)], float(number))
    assert [done.fetched_bytes for done in meter.done] == [len(model), 0]


def test_from_scratch_nothing_is_forgotten_and_everything_learned() -> None:
    meter = Noting()
    one = welcomed(meter=meter, scheme_name="original")
    for number in (1, 2):
        one.ingest(rows(5, first=5 * number))
        one.handle([assignment(number)], float(number))
    first, second = meter.done
    assert second.learned_operations == 2 * first.learned_operations
    assert second.forgotten_operations == 0
    assert second.scratch_operations == second.learned_operations


def test_a_phone_meter_adds_up_what_it_says() -> None:
    meter = PhoneMeter(PhoneSpending(PHONES["mi"], cycles_of("naive_bayes")))
    done = Training(
        learned_operations=10**6, forgotten_operations=10**5, scratch_operations=10**6 * 50 / 10
    )
    meter.start()
    costs = [meter.cost(done) for _ in range(3)]
    assert sum(cost.energy_j for cost in costs) == pytest.approx(meter.spent.whole.total_j)
    assert sum(cost.elapsed_s for cost in costs) == pytest.approx(meter.spent.compute.elapsed_s)
    assert sum(cost.transfer_s for cost in costs) == pytest.approx(meter.spent.radio.elapsed_s)
    assert costs[0].transfer_s > 0.0
    assert meter.spent.wake_ups == 3
    assert meter.spent.scratch_j > 3 * meter.spent.fastest_compute_j
    assert {cost.source for cost in costs} == {"modelled"}


def test_an_update_leaves_when_it_was_trained_and_sent_and_says_how_long_training_took() -> None:
    class Slow(FixedMeter):
        def cost(self, training: Training) -> Cost:
            return Cost(2.0, 1.0, transfer_s=3.0)

    one = welcomed(meter=Slow())
    one.ingest(rows(1))
    assert not updates(one.handle([assignment(1)], 0.0).messages)
    assert not updates(one.handle([], 4.9).messages)
    (sent,) = updates(one.handle([], 5.0).messages)
    assert sent.elapsed_s == 2.0


def test_a_measured_training_has_taken_its_time_and_is_sent_at_once() -> None:
    ticks = iter(range(0, 1_000, 7))
    one = welcomed(meter=MeasuredMeter(clock=lambda: float(next(ticks))))
    one.ingest(rows(1))
    (sent,) = updates(one.handle([assignment(1)], 0.0).messages)
    assert sent.elapsed_s == 7.0


# -- measured -----------------------------------------------------------------------------------


class Counter:
    """A meter of power that says what it is told, or why it can not."""

    def __init__(self, energy_j: float, fails: str = "") -> None:
        self.energy_j, self.fails = energy_j, fails

    def start(self) -> None:
        if self.fails == "start":
            raise DealError("on a charger")

    def read(self) -> Reading:
        if self.fails == "read":
            raise DealError("on a charger")
        return Reading(self.energy_j, None, Source(Kind.MEASURED, "a counter"))


def ticking() -> Any:
    moments: Iterator[float] = iter([0.0, 10.0, 12.5, 20.0, 20.5])
    return lambda: next(moments)


def model() -> PhoneMeter:
    return PhoneMeter(PhoneSpending(PHONES["mi"], cycles_of("naive_bayes")))


def test_time_is_measured_and_energy_where_it_can_be() -> None:
    meter = MeasuredMeter(Counter(3.5), model(), ticking())
    meter.start()
    assert meter.cost(Training(learned_operations=10)) == Cost(
        2.5, 3.5, "measured", is_measured=True
    )


def test_a_clock_that_jumps_back_during_a_training_makes_no_negative_duration() -> None:
    for end_s, elapsed_s in ((10.25, 0.25), (9.0, 0.0)):
        meter = MeasuredMeter(clock=iter([0.0, 10.0, end_s]).__next__)
        meter.start()
        assert meter.cost(Training()).elapsed_s == elapsed_s


@pytest.mark.parametrize("power", [None, Counter(0.0), Counter(1.0, "start"), Counter(1.0, "read")])
def test_where_no_meter_answers_the_model_does_and_is_called_so(power: Any) -> None:
    meter = MeasuredMeter(power, model(), ticking())
    meter.start()
    cost = meter.cost(Training(learned_operations=10**6))
    assert (cost.elapsed_s, cost.source) == (2.5, "modelled")
    assert cost.energy_j == model().cost(Training(learned_operations=10**6)).energy_j


def test_without_meter_and_model_the_energy_is_not_known() -> None:
    meter = MeasuredMeter(clock=ticking())
    meter.start()
    assert meter.cost(Training()) == Cost(2.5, 0.0, "unknown", is_measured=True)


DAMAGES: dict[str, tuple[str, str, str | None]] = {  # the meter, its file, what it then contains
    "a counter that vanishes": ("rapl", "powercap/intel-rapl:0/energy_uj", None),
    "a counter without a number": ("rapl", "powercap/intel-rapl:0/energy_uj", "?"),
    "a gauge that vanishes": ("battery", "power_supply/b/charge_now", None),
    "a gauge that runs backwards": ("battery", "power_supply/b/charge_now", "6000"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_meter_that_fails_while_a_worker_trains_is_named_once_and_every_training_is_done(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name, file, content = DAMAGES[what]
    gauge = {"type": "Battery", "status": "Discharging", "voltage_now": 4_000_000}
    files = zone("0", "package-0", 5_000) | supply("b", charge_now=5_000, **gauge)
    power, path = make_meter(name, tree(tmp_path, files)), tmp_path / "class" / file

    class Failing(MeasuredMeter):
        def start(self) -> None:
            super().start()
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(f"{content}\n")

    one, sent = welcomed(meter=Failing(power, model())), []
    for number in (1, 2, 3):
        one.ingest(rows(1, first=number))
        sent += updates(one.handle([assignment(number)], float(number)).messages)
    assert {update.sequence for update in sent} == {1, 2, 3}
    assert all(update.energy_j > 0.0 for update in sent), "modelled instead"
    assert caplog.text.count(f"{path.name} ") + caplog.text.count(f"{path.name}:") == 1
    assert "training continues" in caplog.text


# -- the device ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (Device(battery=0.1), "low battery"),
        (Device(metered=True), "metered network"),
        (Device(hot=True), "hot"),
        (Device(busy=True, charging=True), "busy"),
    ],
)
def test_a_device_that_should_not_train_declines(device: Device, reason: str) -> None:
    one = welcomed(device=device)
    one.ingest(rows(3))
    step = one.handle([assignment(1)], 0.0)
    declined = [message for message in step.messages if isinstance(message, Declined)]
    assert [message.reason for message in declined] == [reason]
    assert not updates(step.messages)


def test_a_charger_or_a_lower_limit_lets_a_low_battery_train() -> None:
    for other in (
        {"device": Device(battery=0.1, charging=True)},
        {"device": Device(battery=0.1), "min_battery": 0.05},
    ):
        one = welcomed(**other)
        one.ingest(rows(3))
        assert updates(one.handle([assignment(1)], 0.0).messages)


def test_a_device_is_asked_at_the_time() -> None:
    levels = {0.0: 0.1, 5.0: 0.9}
    one = welcomed(device=lambda now_s: Device(battery=levels[now_s]))
    one.ingest(rows(3))
    assert not updates(one.handle([assignment(1)], 0.0).messages)
    assert updates(one.handle([assignment(2)], 5.0).messages)
