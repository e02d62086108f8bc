"""Modelled energy of trainings on a phone, by cause, and of the same work at the fastest clock.

A training is one wake-up: the assignment and the model arrive, the worker learns and forgets, the
update leaves. The radio stays on for a tail after the first transfer. Training that ends within
this tail cuts it short, so the clock is chosen with the radio's share of the charge.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from msgspec import Struct

from dealfl.errors import unknown_name
from dealfl.exact import Cycles, LearnerCycles
from dealfl.power.energy import Energy, EnergyModel
from dealfl.power.frequency import END, FORGET, LEARN, FrequencyControl, no_such_frequency
from dealfl.power.governors import GOVERNORS, governor
from dealfl.power.profiles import BaseLoad, OperatingPoint, Phone
from dealfl.power.radio import Radio

CONTROLLED = "deal"
CLOCKS = (CONTROLLED, *GOVERNORS)

_NOTHING = Energy()
_ENVELOPE_BYTES = 512  # an assignment or a receipt with its protocol overhead


class Training(Struct, frozen=True, kw_only=True):
    """The work of one training.

    A reviewed training changes the model in two calls, first to learn, then to forget. Work without
    its signal runs as the clock stands.
    """

    learned_operations: int = 0
    forgotten_operations: int = 0
    reviewed_operations: tuple[int, ...] = ()  # of each score that reviewed an eviction
    scratch_operations: float = 0.0  # to learn all held examples from scratch instead
    fetched_bytes: int = 0
    sent_bytes: int = 0
    pages_in: int = 0
    pages_out: int = 0
    refactorisations: int = 0  # of the factor of a live model; counted only
    wakes: bool = True  # the device, which is not awake anyway
    rides: bool = False  # other traffic has the radio on, and pays for its tail
    signals: tuple[int, ...] = (LEARN, FORGET)

    @property
    def operations(self) -> int:
        """Operations of learning and forgetting together."""
        return self.learned_operations + self.forgotten_operations


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Energy spent on trainings; values can be added."""

    compute: Energy = _NOTHING  # computing and swapping
    operating: Energy = _NOTHING  # part of `compute` in proportion to the operations
    radio: Energy = _NOTHING
    fastest: Energy = _NOTHING  # the same work, with its transfers, at the fastest clock
    fastest_compute_j: float = 0.0
    scratch_j: float = 0.0  # learning all held examples at the fastest clock in each training
    operations: int = 0
    cycles: float = 0.0
    wake_ups: int = 0
    pages_in: int = 0
    pages_out: int = 0
    refactorisations: int = 0
    review_j: float = 0.0  # part of `compute` that reviewed evictions
    fastest_review_j: float = 0.0  # of the same reviews at the fastest clock

    @property
    def whole(self) -> Energy:
        """Energy of computing and transfers together."""
        return self.compute + self.radio

    @property
    def added_latency(self) -> float:
        """The extra time, as a fraction of the time at the fastest clock."""
        fastest_s = self.fastest.elapsed_s
        return self.whole.elapsed_s / fastest_s - 1.0 if fastest_s else 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in _FIELDS})


_FIELDS = tuple(each.name for each in fields(Spent))


@dataclass(frozen=True, slots=True)
class _Phase:
    """Learning, forgetting or reviewing: the cycles, and the fraction spent on operations."""

    signal: int | None  # None: as the clock stands
    cycles: float
    share: float


_Part = tuple[_Phase, float, OperatingPoint]  # cycles of a phase, at an operating point


class PhoneClock:
    """The clock of a simulated phone: the operating point at which it works, here a fixed one."""

    wait_s = math.inf  # until the clock can change without a signal

    def __init__(self, point: OperatingPoint) -> None:
        self._point = point

    @property
    def point(self) -> OperatingPoint:
        """The current operating point."""
        return self._point

    def wake(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> None:
        """Start a training; wifi stays on for `tail_s` unless the training ends before."""

    def signal(self, signal: int) -> None:
        """Take a worker's signal."""

    def spend(self, elapsed_s: float, *, busy: bool = True) -> None:
        """Let time pass, at most `wait_s`."""

    def run(self, cycles: float) -> Iterator[tuple[float, OperatingPoint]]:
        """Do work at the pace of the clock; yield the cycles done at each operating point."""
        while cycles > 0.0:
            point = self.point
            wait_s = self.wait_s
            done = min(cycles, wait_s * point.frequency_hz)
            yield done, point
            self.spend(done / point.frequency_hz if done == cycles else wait_s)
            cycles -= done


class _ControlledClock(PhoneClock):
    """A clock that `FrequencyControl` steps by the signals of the worker."""

    def __init__(self, phone: Phone) -> None:
        super().__init__(phone.fastest)
        self._control = FrequencyControl(phone)

    @property
    def point(self) -> OperatingPoint:
        return self._control.setting.point or self._point

    def wake(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> None:
        self._control.signal(END)
        self._control.load(base, tail_s, cycles)

    def signal(self, signal: int) -> None:
        self._control.signal(signal)


class _GovernedClock(PhoneClock):
    """A clock that a governor sets, tick by tick; it starts each training from its idle state."""

    def __init__(self, name: str, points: Sequence[OperatingPoint]) -> None:
        self._name = name
        self._points = {point.frequency_hz: point for point in points}
        self.wake(BaseLoad.AWAKE)

    @property
    def point(self) -> OperatingPoint:
        return self._points[self._governor.frequency_hz]

    def wake(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> None:
        del base, tail_s, cycles  # a governor sees only the load of the cores
        self._governor = governor(self._name, self._points)
        self._now_s = self._busy_s = self._sampled_s = 0.0
        self.wait_s = self._governor.wait_s

    def spend(self, elapsed_s: float, *, busy: bool = True) -> None:
        self._now_s += elapsed_s
        self._busy_s += elapsed_s if busy else 0.0
        self.wait_s -= elapsed_s
        if self.wait_s <= 0.0:
            load = min(self._busy_s / (self._now_s - self._sampled_s), 1.0)
            self._governor.step(load, self._now_s)
            self._busy_s = 0.0
            self._sampled_s = self._now_s
            self.wait_s = self._governor.wait_s


def phone_clock(phone: Phone, name: str = CONTROLLED, frequency_hz: int = 0) -> PhoneClock:
    """Return the clock of a simulated phone: controlled by signals, by a governor, or fixed.

    Governors set the clock of the fastest cluster, on which the work then runs.

    Examples
    --------
    >>> from dealfl.power import phone
    >>> phone_clock(phone("honor"), frequency_hz=1402 * 10**6).point.cluster
    1
    """
    if frequency_hz:
        points = [point for point in phone.points if point.frequency_hz == frequency_hz]
        if not points:
            table = (point.frequency_hz for point in phone.points)
            raise no_such_frequency(phone.name, frequency_hz, table)
        return PhoneClock(min(points, key=phone.current_a))
    if name == CONTROLLED:
        return _ControlledClock(phone)
    if name not in GOVERNORS:
        raise unknown_name("governor", name, CLOCKS)
    return _GovernedClock(name, phone.clusters[phone.fastest.cluster].points)


class PhoneSpending:
    """The modelled energy of one learner's trainings on one phone.

    Examples
    --------
    >>> from dealfl.power import phone
    >>> from dealfl.exact import Cycles, LearnerCycles
    >>> cycles = LearnerCycles(learn=Cycles(16.2, 334e3), forget=Cycles(17.1, 721e3))
    >>> spending = PhoneSpending(phone("honor"), cycles)
    >>> spent = spending.of(Training(learned_operations=10**6, sent_bytes=10_000))
    >>> spent.wake_ups, spent.whole.charge_uah <= spent.fastest.charge_uah
    (1, True)
    """

    def __init__(
        self,
        phone: Phone,
        cycles: LearnerCycles,
        base: BaseLoad = BaseLoad.AWAKE,
        clock: PhoneClock | None = None,
    ) -> None:
        self.phone = phone
        self._cycles = cycles
        self._base = base
        self._clock = clock or phone_clock(phone)
        self._model = EnergyModel(phone)
        self._fastest = phone.fastest
        self._with_radio_on = replace(phone, link=replace(phone.link, tail_s=0.0, promotion_j=0.0))

    def of(self, training: Training) -> Spent:
        """Return the energy of a training, with the clock as its signals set it."""
        fastest = self._fastest
        phases = self._phases(training)
        cycles = sum(phase.cycles for phase in phases)
        pages = (training.pages_in, training.pages_out)
        parts = self._clocked(phases, training)
        compute = self._computed(((done, point) for _, done, point in parts), *pages)
        operating = self._computed((done * phase.share, point) for phase, done, point in parts)
        review = self._computed(
            (done, point) for phase, done, point in parts if phase.signal is None
        )
        plain = self._computed([(cycles, fastest)] if cycles else [], *pages)
        reviewing = sum(phase.cycles for phase in phases if phase.signal is None)
        scratch = self._scaled(self._cycles.learn.of(training.scratch_operations))
        return Spent(
            compute=compute,
            operating=operating,
            radio=self._radio(training, compute.elapsed_s),
            fastest=plain + self._radio(training, plain.elapsed_s),
            fastest_compute_j=plain.total_j,
            scratch_j=self._model.compute(scratch, fastest, self._base).total_j,
            operations=training.operations,
            cycles=cycles,
            wake_ups=int(training.wakes),
            pages_in=training.pages_in,
            pages_out=training.pages_out,
            refactorisations=training.refactorisations,
            review_j=review.total_j,
            fastest_review_j=self._computed([(reviewing, fastest)]).total_j,
        )

    def _phases(self, training: Training) -> list[_Phase]:
        """Return learning and forgetting, in one call if nothing is reviewed, and reviewing."""
        both = (
            (LEARN, self._cycles.learn, training.learned_operations),
            (FORGET, self._cycles.forget, training.forgotten_operations),
        )
        done = [(signal, law, operations) for signal, law, operations in both if operations]
        overhead = max((law.per_call for _, law, _ in done), default=0.0)
        reviewed = training.reviewed_operations
        calls: list[tuple[int | None, Cycles, int]] = [
            (signal, Cycles(law.per_operation, overhead * (not n or bool(reviewed))), count)
            for n, (signal, law, count) in enumerate(done)
        ]
        review = self._cycles.review or self._cycles.learn
        calls += [(None, review, count) for count in reviewed]
        return [
            _Phase(signal, self._scaled(law.of(count)), law.share_of_operations(count))
            for signal, law, count in calls
        ]

    def _is_on(self, training: Training) -> bool:
        """Return whether the radio is on for other reasons."""
        return self._base.wifi or not training.wakes or training.rides

    def _scaled(self, cycles: float) -> float:
        return self._model.cycles(cycles, 1.0)

    def _clocked(self, phases: Sequence[_Phase], training: Training) -> list[_Part]:
        """Return the operating point for each part of the work, as the clock sets it."""
        tail_s = 0.0 if self._is_on(training) else self.phone.link.tail_s
        clock = self._clock
        parts: list[_Part] = []
        clock.wake(self._base, tail_s, sum(phase.cycles for phase in phases))
        for phase in phases:
            if phase.signal in training.signals:
                clock.signal(phase.signal)
            parts += [(phase, done, point) for done, point in clock.run(phase.cycles)]
        clock.signal(END)
        return parts

    def _computed(
        self, parts: Iterable[tuple[float, OperatingPoint]], pages_in: int = 0, pages_out: int = 0
    ) -> Energy:
        """Return the energy of cycles at operating points, and of swapped pages."""
        model = self._model
        base = self._base
        swapped = model.compute(0.0, self._fastest, base, pages_in=pages_in, pages_out=pages_out)
        return sum((model.compute(done, point, base) for done, point in parts), swapped)

    def _radio(self, training: Training, compute_s: float) -> Energy:
        """Return the energy of a call: announcement, assignment and model, update, receipt.

        The update cuts the tail of the first transfers short. There is no tail if the radio is on
        for other reasons, and only the update if the phone is connected anyway.
        """
        radio = Radio(self._with_radio_on if self._is_on(training) else self.phone)
        if training.wakes:
            radio.connect(0.0)
            radio.transfer(0.0, "announcement", sent=_ENVELOPE_BYTES)
            radio.transfer(0.0, "training", received=_ENVELOPE_BYTES + training.fetched_bytes)
        if training.wakes or training.sent_bytes:
            done_s = max(radio.traffic.busy_until_s, 0.0) + compute_s
            radio.transfer(done_s, "training", sent=_ENVELOPE_BYTES + training.sent_bytes)
            radio.transfer(done_s, "receipt", received=_ENVELOPE_BYTES)
        return radio.energy
