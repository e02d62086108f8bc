"""What trainings cost a phone, modelled by cause, beside the same work at the fastest clock.

A training is one wake-up: the assignment and the model come in, the worker learns and forgets, the
update leaves. While the radio has not fallen asleep after the first burst, a slower clock keeps
nothing else awake, but a training that ends within this tail ends it: so the tail is part of the
load for which the clock is chosen, and slowing down pays only after it, or where it always does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from dealfl.power.energy import Energy, EnergyModel
from dealfl.power.frequency import END, FORGET, LEARN, FrequencyControl
from dealfl.power.hardware import BaseLoad, OperatingPoint, Phone
from dealfl.work import LearnerCycles

__all__ = ["PhoneSpending", "Spent", "Training"]

_NOTHING = Energy()
_ENVELOPE_BYTES = 512  # of an assignment or a receipt, and of what carries it


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What one training did: operations, bytes over the air, pages swapped.

    `scratch_operations` is what learning everything held would have taken instead. What is done
    while the worker is awake anyway is no wake-up of its own.
    """

    learned_operations: int = 0
    forgotten_operations: int = 0
    scratch_operations: float = 0.0
    fetched_bytes: int = 0
    sent_bytes: int = 0
    pages_in: int = 0
    pages_out: int = 0
    wakes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What trainings cost; sums of them are sums of this.

    `operating` is the part of `compute` that goes with the operations; the rest is what each call
    takes, however little it does. `fastest` is the whole cost of the same work at the fastest
    clock, `scratch_j` what computing on everything held would have cost there, each time.
    """

    compute: Energy = _NOTHING
    operating: Energy = _NOTHING
    radio: Energy = _NOTHING
    fastest: Energy = _NOTHING
    fastest_compute_j: float = 0.0
    scratch_j: float = 0.0
    operations: int = 0
    cycles: float = 0.0
    wake_ups: int = 0

    @property
    def whole(self) -> Energy:
        """All that was drawn from the battery, and how long it took."""
        return self.compute + self.radio

    @property
    def added_latency(self) -> float:
        """The extra time, as a fraction of the time at the fastest clock."""
        fastest_s = self.fastest.elapsed_s
        return self.whole.elapsed_s / fastest_s - 1.0 if fastest_s else 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in _FIELDS})


_FIELDS = tuple(one.name for one in fields(Spent))


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of computing at one operating point."""

    cycles: float
    point: OperatingPoint
    share: float = 1.0  # of these cycles, for operations


@dataclass(frozen=True, slots=True)
class _Phase:
    """Learning or forgetting: the worker's signal, the cycles, and their share for operations."""

    signal: int
    cycles: float
    share: float


class PhoneSpending:
    """Models what each training of one learner costs one phone.

    Examples
    --------
    >>> from dealfl.power import phone
    >>> from dealfl.work import Cycles
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
        control: FrequencyControl | None = None,
    ) -> None:
        self.phone = phone
        self._cycles, self._base = cycles, base
        self._control = control or FrequencyControl.for_phone(phone, base=base)
        self._model = EnergyModel(phone)

    def of(self, training: Training) -> Spent:
        """Return what a training costs, with the clock stepped by what the worker does."""
        model, fastest = self._model, self.phone.fastest
        phases = self._phases(training)
        cycles = sum(phase.cycles for phase in phases)
        pages = (training.pages_in, training.pages_out)
        parts = self._controlled(phases, training.wakes)
        compute = self._computed(parts, *pages)
        operating = [_Part(part.cycles * part.share, part.point) for part in parts]
        plain = self._computed([_Part(cycles, fastest)] if cycles else [], *pages)
        scratch = self._scaled(self._cycles.learn.of(training.scratch_operations))
        return Spent(
            compute=compute,
            operating=self._computed(operating, 0, 0),
            radio=self._radio(training, compute.elapsed_s),
            fastest=plain + self._radio(training, plain.elapsed_s),
            fastest_compute_j=plain.total_j,
            scratch_j=model.compute(scratch, fastest, self._base).total_j,
            operations=training.learned_operations + training.forgotten_operations,
            cycles=cycles,
            wake_ups=int(training.wakes),
        )

    def _phases(self, training: Training) -> list[_Phase]:
        both = (
            (LEARN, self._cycles.learn, training.learned_operations),
            (FORGET, self._cycles.forget, training.forgotten_operations),
        )
        return [
            _Phase(signal, self._scaled(law.of(done)), law.share_of_operations(done))
            for signal, law, done in both
            if law.of(done)
        ]

    def _scaled(self, cycles: float) -> float:
        return self._model.cycles(cycles, 1.0)

    def _controlled(self, phases: Sequence[_Phase], wakes: bool) -> list[_Part]:
        """Return where the clock stands for each stretch of work."""
        control, parts = self._control, []
        tail_s = self.phone.wifi.tail_s if wakes and not self._base.wifi else 0.0
        control.load(self._base.with_wifi if tail_s else self._base)
        for phase in phases:
            left, point = phase.cycles, self._signalled(phase.signal)
            if tail_s > 0.0:
                within = min(left, tail_s * point.frequency_hz)
                parts.append(_Part(within, point, phase.share))
                left -= within
                tail_s -= within / point.frequency_hz
                if left > 0.0:
                    tail_s = 0.0
                    control.load(self._base)
                    point = self._signalled(phase.signal)
            if left > 0.0:
                parts.append(_Part(left, point, phase.share))
        control.load(self._base)
        control.signal(END)
        return parts

    def _signalled(self, signal: int) -> OperatingPoint:
        return self._control.signal(signal).point or self.phone.fastest

    def _computed(self, parts: Sequence[_Part], pages_in: int, pages_out: int) -> Energy:
        model, base = self._model, self._base
        swapped = model.compute(
            0.0, self.phone.fastest, base, pages_in=pages_in, pages_out=pages_out
        )
        return sum((model.compute(part.cycles, part.point, base) for part in parts), swapped)

    def _radio(self, training: Training, compute_s: float) -> Energy:
        """Return two bursts: the model comes in, the update leaves when computing is done.

        The tail of the first ends with it; where the radio is on for others, there is none.
        """
        if not training.wakes:
            return self._burst(training.sent_bytes, 0.0) if training.sent_bytes else _NOTHING
        lasting = 0.0 if self._base.wifi else self.phone.wifi.tail_s
        first = self._burst(training.fetched_bytes, min(compute_s, lasting))
        return first + self._burst(training.sent_bytes, lasting)

    def _burst(self, size_bytes: int, next_s: float) -> Energy:
        active_s = (size_bytes + _ENVELOPE_BYTES) / self.phone.wifi.bytes_per_s
        return self._model.transfer(active_s, self._base, next_s=next_s)
