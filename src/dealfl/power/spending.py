"""Modelled energy of trainings on a phone, by cause, and of the same work at the fastest clock.

A training is one wake-up: the assignment and the model arrive, the worker learns and forgets, the
update leaves. The radio stays on for a tail after the first transfer. Training that ends within
this tail cuts it short, so the clock is chosen with the radio's share of the charge.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from dealfl.exact import Cycles, LearnerCycles
from dealfl.power.energy import Energy, EnergyModel
from dealfl.power.frequency import END, FORGET, LEARN
from dealfl.power.hardware import BaseLoad, OperatingPoint, Phone
from dealfl.power.phone_clocks import PhoneClock, phone_clock, run

__all__ = ["PhoneSpending", "Spent", "Training"]

_NOTHING = Energy()
_ENVELOPE_BYTES = 512  # an assignment or a receipt with its protocol overhead


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The work of one training.

    Parameters
    ----------
    learned_operations, forgotten_operations : int, default 0
        Operations to learn and to forget.
    reviewed_operations : tuple of int, default ()
        Operations of each score of the live model that reviewed an eviction. A reviewed training
        changes the model in two calls, first to learn, then to forget.
    scratch_operations : float, default 0
        Operations to learn all held examples from scratch instead.
    fetched_bytes, sent_bytes : int, default 0
        Bytes received and sent over wifi.
    pages_in, pages_out : int, default 0
        Pages read from and written to storage.
    refactorisations : int, default 0
        Times that the factor of a live model was computed from scratch again; counted only.
    wakes : bool, default True
        Whether the training wakes the device; False if the device is awake anyway.
    signals : tuple of int, default (1, -1)
        Signals that the worker gave; work without its signal runs as the clock stands.
    """

    learned_operations: int = 0
    forgotten_operations: int = 0
    reviewed_operations: tuple[int, ...] = ()
    scratch_operations: float = 0.0
    fetched_bytes: int = 0
    sent_bytes: int = 0
    pages_in: int = 0
    pages_out: int = 0
    refactorisations: int = 0
    wakes: bool = True
    signals: tuple[int, ...] = (LEARN, FORGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Energy spent on trainings; values can be added.

    Parameters
    ----------
    compute : Energy
        Energy of computing and swapping.
    operating : Energy
        Part of `compute` that is proportional to the operations; the rest is per-call overhead.
    radio : Energy
        Energy of the transfers.
    fastest : Energy
        Energy of the same work, computing and transfers, at the fastest clock.
    fastest_compute_j : float, default 0
        Energy of computing at the fastest clock, in joules.
    scratch_j : float, default 0
        Energy of learning all held examples at the fastest clock in each training, in joules.
    operations : int, default 0
        Operations.
    cycles : float, default 0
        Cycles on the phone.
    wake_ups : int, default 0
        Number of wake-ups.
    pages_in, pages_out : int, default 0
        Pages read from and written to storage.
    refactorisations : int, default 0
        Times that the factor of a live model was computed from scratch again.
    review_j : float, default 0
        Part of `compute` that reviewed evictions, in joules.
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
    pages_in: int = 0
    pages_out: int = 0
    refactorisations: int = 0
    review_j: float = 0.0

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


_FIELDS = tuple(one.name for one in fields(Spent))


@dataclass(frozen=True, slots=True)
class _Part:
    """Computing at one operating point."""

    cycles: float
    point: OperatingPoint
    share: float = 1.0  # fraction of the cycles spent on operations, not on overhead
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class _Phase:
    """Learning, forgetting or reviewing: the cycles, and the fraction spent on operations."""

    signal: int | None  # None: as the clock stands
    cycles: float
    share: float


class PhoneSpending:
    """The modelled energy of one learner's trainings on one phone.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.
    cycles : LearnerCycles
        Cycles of learning and forgetting on the calibration machine, by operations.
    base : BaseLoad, default AWAKE
        Parts of the device that draw current beside the CPU.
    clock : PhoneClock, optional
        Clock of the phone; by default under DEAL's control.

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
        clock: PhoneClock | None = None,
    ) -> None:
        self.phone = phone
        self._cycles, self._base = cycles, base
        self._clock = clock or phone_clock(phone)
        self._model = EnergyModel(phone)

    def of(self, training: Training) -> Spent:
        """Return the energy of a training, with the clock as its signals set it.

        Parameters
        ----------
        training : Training
            The work of the training.

        Returns
        -------
        Spent
            Energy by part, and the same work at the fastest clock.
        """
        model, fastest = self._model, self.phone.fastest
        phases = self._phases(training)
        cycles = sum(phase.cycles for phase in phases)
        pages = (training.pages_in, training.pages_out)
        parts = self._clocked(phases, training)
        compute = self._computed(parts, *pages)
        operating = [_Part(part.cycles * part.share, part.point) for part in parts]
        review = [part for part in parts if part.signal is None]
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
            pages_in=training.pages_in,
            pages_out=training.pages_out,
            refactorisations=training.refactorisations,
            review_j=self._computed(review, 0, 0).total_j,
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

    def _scaled(self, cycles: float) -> float:
        return self._model.cycles(cycles, 1.0)

    def _clocked(self, phases: Sequence[_Phase], training: Training) -> list[_Part]:
        """Return the operating point for each part of the work, as the clock sets it."""
        tail_s = self.phone.wifi.tail_s if training.wakes and not self._base.wifi else 0.0
        clock, parts = self._clock, []
        clock.wake(self._base, tail_s, sum(phase.cycles for phase in phases))
        for phase in phases:
            if phase.signal in training.signals:
                clock.signal(phase.signal)
            parts += [
                _Part(cycles, point, phase.share, phase.signal)
                for cycles, point in run(clock, phase.cycles)
            ]
        clock.signal(END)
        return parts

    def _computed(self, parts: Sequence[_Part], pages_in: int, pages_out: int) -> Energy:
        model, base = self._model, self._base
        swapped = model.compute(
            0.0, self.phone.fastest, base, pages_in=pages_in, pages_out=pages_out
        )
        return sum((model.compute(part.cycles, part.point, base) for part in parts), swapped)

    def _radio(self, training: Training, compute_s: float) -> Energy:
        """Return the energy of two transfers: the model arrives, the update leaves.

        The second transfer cuts the tail of the first short. There is no tail if the radio is on
        for other reasons.
        """
        if not training.wakes:
            return self._burst(training.sent_bytes, 0.0) if training.sent_bytes else _NOTHING
        lasting = 0.0 if self._base.wifi else self.phone.wifi.tail_s
        first = self._burst(training.fetched_bytes, min(compute_s, lasting))
        return first + self._burst(training.sent_bytes, lasting)

    def _burst(self, size_bytes: int, next_s: float) -> Energy:
        active_s = (size_bytes + _ENVELOPE_BYTES) / self.phone.wifi.bytes_per_s
        return self._model.transfer(active_s, self._base, next_s=next_s)
