"""Predictions of the cost of a worker's next training, learned from devices of its kind.

T = A·F + B, where F counts cycles of the reference machine on which the learners were measured,
because forgetting costs a different number of cycles than learning. For the time, the cycles of
long work count more if the phone's clock runs slower for it. A phone with a profile starts from it,
any other device from its first report. A report changes a law by the logarithm of its error and by
at most a factor of two, so that one wrong report in ten has little effect. Recent errors of a law
correct it further, because models grow and so does the time to download them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Annotated, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.learners import Cycles, Learner, LearnerCycles
from dealfl.power import PHONES, PhoneSpending, Spent, TimeEstimate, Training, TrainingTime
from dealfl.protocol import Update
from dealfl.server.ledger_reader import WorkerRow

Floats = NDArray[np.float64]
Number = TypeVar("Number", float, Floats)

_VERSION = 2
_HEADER, _DEVICE = "header", "device "
_MAX_DEVICES = 256  # kinds; the least recently seen is dropped first
_ALIKE = LearnerCycles(Cycles(1.0), Cycles(1.0))  # for a learner without measured cycles
_NEW_SHARE = 0.05
_LITTLE = 0.01  # share of the held examples by which evictions may grow at once
_ERRORS = 200
_NEW = 0.2  # weight of a new report in a running mean
_MANY_OPERATIONS = 10**9
_FEW_OPERATIONS = 1
_HALVINGS = 20
_NO_SLOWDOWN = 1.01
_MAX_FACTOR = 2.0  # of the expected value; a larger one is capped


@dataclass(frozen=True, slots=True)
class DeviceLaws:
    """Laws of time and energy; 0 operations per example means that nothing is known yet."""

    time: TimeEstimate
    energy: TimeEstimate | None  # in joules instead of seconds
    operations_per_example: float = 0.0
    evicting: TimeEstimate | None = None  # time of trainings that evict, and may review this

    @property
    def is_sound(self) -> bool:
        """Whether all values are in range; a damaged file may contain any value."""
        laws = (self.time, self.energy or self.time, self.evicting or self.time)
        return self.operations_per_example >= 0.0 and all(law.is_sound for law in laws)


@dataclass(frozen=True, slots=True)
class Pace:
    """A clock that runs slower if the work is long, as control does when the radio's tail ends."""

    max_cycles: float = math.inf  # of the work at full speed
    slowdown: float = 1.0  # of longer work

    def of(self, cycles: float) -> float:
        """Return the cycles at full speed that take as long as the work."""
        return cycles if cycles <= self.max_cycles else cycles * self.slowdown


class _Header(msgspec.Struct, array_like=True):
    """The part of the state that does not belong to one kind of device."""

    version: int
    learner: str
    operations_per_example: Annotated[float, Meta(ge=0)] = 0.0
    evicted_share: Annotated[float, Meta(ge=0)] = 0.0
    evictions: Annotated[int, Meta(ge=0)] = 0  # trainings with something to evict
    reports: Annotated[int, Meta(ge=0)] = 0  # that changed the predictions


class _Device(msgspec.Struct, array_like=True):
    """The part of one kind of device; the one with the smallest `seen` is dropped first."""

    seen: int
    laws: DeviceLaws


@dataclass(frozen=True, slots=True)
class Prediction:
    """The expected cost of a training, including the wake-up."""

    elapsed_s: float
    energy_j: float


@dataclass(frozen=True, slots=True)
class _Outlook:
    """The expectation for all devices of one kind."""

    operations_per_example: float
    evicted_share: float  # of the held examples
    cycles: LearnerCycles
    time: TrainingTime
    energy: TrainingTime | None  # in joules instead of seconds
    evicting: TrainingTime  # the time of trainings that evict
    pace: Pace

    def predict(self, waiting: int, examples: int) -> Prediction:
        """Return the cost of learning `waiting` examples and evicting some of the `examples`."""
        return self.predict_exactly(waiting, math.floor(self.evicted_share * examples + 0.5))

    def predict_exactly(self, waiting: int, evicted: int) -> Prediction:
        """Return the cost of learning and evicting given numbers of examples."""
        work = _cycles(self.cycles, self.operations_per_example, waiting, evicted)
        energy = self.energy
        energy_j = energy.seconds_per_operation * work + energy.overhead_s if energy else 0.0
        time = self.evicting if evicted else self.time
        elapsed_s = time.seconds_per_operation * self.pace.of(work) + time.overhead_s
        return Prediction(elapsed_s, energy_j)

    def predict_many(self, waiting: Floats, examples: Floats) -> tuple[Floats, Floats]:
        """Return time and energy of many trainings, as `predict` does."""
        evicted = np.floor(self.evicted_share * examples + 0.5)
        work = _cycles(self.cycles, self.operations_per_example, waiting, evicted)
        energy_j = np.zeros(len(work))
        if self.energy:
            energy_j = self.energy.seconds_per_operation * work + self.energy.overhead_s
        paced = np.where(work <= self.pace.max_cycles, work, work * self.pace.slowdown)
        slope, overhead_s = (
            np.where(evicted > 0, getattr(self.evicting, name), getattr(self.time, name))
            for name in ("seconds_per_operation", "overhead_s")
        )
        return slope * paced + overhead_s, energy_j


class Predictions:
    """Predictions of training costs, learned from the reports of workers.

    Examples
    --------
    >>> from dealfl.learners import NaiveBayes
    >>> honor = WorkerRow("w", waiting=10, device="honor")
    >>> predictions = Predictions(NaiveBayes)
    >>> report = Update(job="j", worker="w", incarnation=1, sequence=1, round=1, delta=b"",
    ...                 learned=10, operations=640, elapsed_s=0.004, energy_j=0.3)
    >>> for _ in range(20):
    ...     predictions.observe(honor, report)
    >>> cost = predictions.predict(honor)
    >>> round(cost.elapsed_s, 3), round(cost.energy_j, 1)
    (0.004, 0.3)
    """

    def __init__(self, learner: type[Learner]) -> None:
        self._learner = learner.name
        self._measured = learner.cycles.of_worker if learner.cycles else None
        self._cycles = self._measured or _ALIKE
        self._clear()

    def _clear(self) -> None:
        self._laws: dict[str, DeviceLaws] = {}
        self._outlooks: dict[str, _Outlook | None] = {}
        self._expected: dict[str, Prediction] = {}
        self._errors: deque[float] = deque(maxlen=_ERRORS)
        self._law_errors: deque[float] = deque(maxlen=_ERRORS)
        self._header = _Header(_VERSION, self._learner)
        self._stale: dict[str, int] = {}  # devices whose part changed, and in which report

    # -- predictions ----------------------------------------------------------------------------

    def predict(self, row: WorkerRow) -> Prediction | None:
        """Return the expected cost of a worker's next training."""
        outlook = self._outlook(row.device)
        return outlook.predict(row.waiting, row.held) if outlook else None

    def predict_many(
        self, device: str, waiting: Floats, examples: Floats
    ) -> tuple[Floats, Floats] | None:
        """Return time and energy of the next training of many devices of one kind."""
        outlook = self._outlook(device)
        return outlook.predict_many(waiting, examples) if outlook else None

    def predict_least(self, row: WorkerRow) -> Prediction:
        """Return the cost of the smallest training by the profile of a phone; 0 without one.

        Reports do not change it, so that no worker can raise it for others.
        """
        laws = laws_from_profile(row.device, self._measured)
        if laws is None or laws.energy is None:
            return Prediction(0.0, 0.0)
        return Prediction(laws.time.time.overhead_s, laws.energy.time.overhead_s)

    def _outlook(self, device: str) -> _Outlook | None:
        """Return the expectation for one kind of device."""
        if device in self._outlooks:
            return self._outlooks[device]
        if len(self._outlooks) > 2 * _MAX_DEVICES:
            self._outlooks.clear()
        laws = self._laws.get(device) or laws_from_profile(device, self._measured)
        outlook = None
        if laws is not None:
            outlook = _Outlook(
                laws.operations_per_example or self._header.operations_per_example,
                self._header.evicted_share,
                self._cycles,
                current_law(laws.time),
                current_law(laws.energy) if laws.energy else None,
                current_law(laws.evicting or laws.time),
                pace_from_profile(device, self._measured),
            )
        self._outlooks[device] = outlook
        return outlook

    def predict_energy_j(self, row: WorkerRow) -> float:
        """Return the energy that a worker without a reply may have spent."""
        prediction = self.predict(row)
        return prediction.energy_j if prediction and prediction.energy_j else row.last_energy_j

    def assume_energy_j(self, row: WorkerRow, update: Update) -> float:
        """Return the energy of a training that reports none: that of its kind, or of others."""
        for devices in ([row.device], list(self._laws)):
            outlooks = [outlook for device in devices if (outlook := self._outlook(device))]
            energies_j = [
                outlook.predict_exactly(update.learned, update.evicted).energy_j
                for outlook in outlooks
                if outlook.energy
            ]
            if energies_j:
                return median(energies_j)
        return 0.0

    # -- reports --------------------------------------------------------------------------------

    def expect(self, row: WorkerRow) -> None:
        """Store the prediction for a worker that trains now, to compare it with the report."""
        prediction = self.predict(row)
        if prediction is not None:
            self._expected[row.name] = prediction

    def observe(self, row: WorkerRow, update: Update) -> None:
        """Learn from a worker's report; one without work is ignored."""
        expected = self._expected.pop(row.name, None)
        if not _trained(update):
            return
        self._note_errors(row, update, expected)
        per_example = update.operations / (update.learned + update.evicted)
        state = self._header
        state.operations_per_example = running_mean(state.operations_per_example, per_example)
        if row.held > 0:
            share = min(update.evicted / row.held, 1.0)
            state.evictions += 1
            weight = max(1.0 / state.evictions, _NEW_SHARE)
            state.evicted_share = running_mean(state.evicted_share, share, weight, at_least=_LITTLE)
        work = _cycles(self._cycles, per_example, update.learned, update.evicted)
        laws = self._laws.pop(row.device, None) or laws_from_profile(row.device, self._measured)
        if laws is None:
            laws = DeviceLaws(TimeEstimate.prior(TrainingTime(update.elapsed_s / work, 0.0)), None)
        energy = laws.energy
        if update.energy_j > 0.0:  # else the device cannot measure it
            start = energy or TimeEstimate.prior(TrainingTime(update.energy_j / work, 0.0))
            energy = _improved(start, work, update.energy_j)
        paced = pace_from_profile(row.device, self._measured).of(work)
        time = laws.time
        evicting = laws.evicting
        if update.evicted:
            evicting = _improved(evicting or time, paced, update.elapsed_s)
        else:
            time = _improved(time, paced, update.elapsed_s)
        rate = running_mean(laws.operations_per_example, per_example)
        self._laws[row.device] = DeviceLaws(time, energy, rate, evicting)
        state.reports += 1
        dropped = list(self._laws)[:-_MAX_DEVICES]
        self._stale |= dict.fromkeys([*dropped, row.device], state.reports)
        for device in dropped:
            del self._laws[device]
        self._outlooks.clear()

    def _note_errors(self, row: WorkerRow, update: Update, expected: Prediction | None) -> None:
        """Compare a report with what was expected at selection, and of its numbers of examples."""
        if expected is not None:
            self._errors.append(abs(expected.elapsed_s / update.elapsed_s - 1.0))
        if (outlook := self._outlook(row.device)) is not None:
            exact = outlook.predict_exactly(update.learned, update.evicted)
            self._law_errors.append(abs(exact.elapsed_s / update.elapsed_s - 1.0))

    @property
    def reports(self) -> int:
        """Number of reports that changed the predictions."""
        return self._header.reports

    @property
    def median_error(self) -> float | None:
        """Median relative error of the last 200 times, as predicted at selection; None for none."""
        return median(self._errors) if self._errors else None

    @property
    def median_law_error(self) -> float | None:
        """The same, as predicted when the numbers of examples to learn and evict are known."""
        return median(self._law_errors) if self._law_errors else None

    # -- restarts -------------------------------------------------------------------------------

    def changes(self) -> dict[str, bytes]:
        """Return the parts of the state that changed since the last call or `restore`."""
        if not self._stale:
            return {}
        parts = {_HEADER: msgspec.json.encode(self._header)}
        for device, seen in self._stale.items():
            laws = self._laws.get(device)
            parts[_DEVICE + device] = msgspec.json.encode(_Device(seen, laws)) if laws else b""
        self._stale = {}
        return parts

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Resume from a state. An empty, damaged or incompatible state starts from nothing."""
        self._clear()
        names = [name for name in parts if name.startswith(_DEVICE)]
        try:
            header = msgspec.json.decode(parts.get(_HEADER, b""), type=_Header)
            devices = [msgspec.json.decode(parts[name], type=_Device) for name in names]
        except msgspec.DecodeError:
            sound = False
        else:
            same = (header.version, header.learner) == (_VERSION, self._learner)
            sound = same and all(device.laws.is_sound for device in devices)
        if sound:
            pairs = sorted(zip(names, devices, strict=True), key=lambda pair: pair[1].seen)
            self._laws = {name.removeprefix(_DEVICE): device.laws for name, device in pairs}
            self._header = header
        else:  # the parts are to be deleted
            self._stale = {name.removeprefix(_DEVICE): 0 for name in names}


def _trained(update: Update) -> bool:
    return update.operations > 0 and update.learned + update.evicted > 0 and update.elapsed_s > 0.0


def _cycles(cycles: LearnerCycles, per_example: float, learned: Number, evicted: Number) -> Number:
    """Return the cycles to learn and evict in one call; those of the call count as overhead."""
    learning = cycles.learn.per_operation * learned
    forgetting = cycles.forget.per_operation * evicted
    return per_example * (learning + forgetting)


# -- laws of one kind of device -------------------------------------------------------------------


@lru_cache(maxsize=256)  # the names of devices come from workers
def pace_from_profile(device: str, cycles: LearnerCycles | None) -> Pace:
    """Return the pace of a phone with a profile whose clock is under DEAL's control."""
    if device not in PHONES or cycles is None:
        return Pace()

    def operation_s(exponent: float) -> float:
        operations = int(10**exponent)
        return _spent(device, cycles, operations).compute.elapsed_s / cycles.learn.of(operations)

    low, high = math.log10(_FEW_OPERATIONS), math.log10(_MANY_OPERATIONS)
    slowdown = operation_s(high) / operation_s(low)
    middle_s = operation_s(low) * math.sqrt(slowdown)
    for _ in range(_HALVINGS if slowdown > _NO_SLOWDOWN else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if operation_s(middle) > middle_s else (middle, high)
    return Pace(cycles.learn.per_operation * 10**high, slowdown)


@lru_cache(maxsize=256)
def laws_from_profile(device: str, cycles: LearnerCycles | None) -> DeviceLaws | None:
    """Return the laws of a phone with a profile, for a learner with measured cycles."""
    if device not in PHONES or cycles is None:
        return None
    few = _spent(device, cycles, _FEW_OPERATIONS)
    many = _spent(device, cycles, _MANY_OPERATIONS)
    apart = cycles.learn.per_operation * (_MANY_OPERATIONS - _FEW_OPERATIONS)
    paced = pace_from_profile(device, cycles).of(apart)
    time = _line(few, many, paced, lambda spent: spent.compute.elapsed_s)
    energy = _line(few, many, apart, lambda spent: spent.whole.total_j)
    return DeviceLaws(TimeEstimate.prior(time), TimeEstimate.prior(energy))


def _spent(device: str, cycles: LearnerCycles, operations: int) -> Spent:
    return PhoneSpending(PHONES[device], cycles).of(Training(learned_operations=operations))


def current_law(estimate: TimeEstimate) -> TrainingTime:
    """Return a law corrected by half of its recent error; it learned from that error too."""
    law = estimate.time
    missed = math.exp(0.5 * estimate.persistent_error)
    return TrainingTime(missed * law.seconds_per_operation, missed * law.overhead_s)


def running_mean(before: float, new: float, weight: float = _NEW, at_least: float = 0.0) -> float:
    """Return a running mean in which no value counts more than twice the mean plus `at_least`.

    Examples
    --------
    >>> running_mean(10.0, 11.0), running_mean(10.0, 1e18), running_mean(0.0, 7.0)
    (10.2, 12.0, 7.0)
    """
    if not before and not at_least:
        return new
    return before + weight * (min(new, _MAX_FACTOR * before + at_least) - before)


def _improved(estimate: TimeEstimate, cycles: float, figure: float) -> TimeEstimate:
    try:
        if estimate.observations == 0:
            estimate = TimeEstimate.prior(_through(estimate.time, cycles, figure))
        most = _MAX_FACTOR * estimate.time.predicted_s(cycles)
        return estimate.with_measurement(cycles, min(figure, most) if most else figure)
    except (BadInput, ArithmeticError):
        return estimate  # values too far apart to compute with


def _through(line: TrainingTime, cycles: float, figure: float) -> TrainingTime:
    """Return a profile's line after the first report.

    A profile does not know the message size of this job or the overhead of a call on this device,
    so the excess of a report is overhead.
    """
    working = line.seconds_per_operation * cycles
    if figure > working:
        return replace(line, overhead_s=figure - working)
    return replace(line, seconds_per_operation=figure / cycles, overhead_s=0.0)


def _line(few: Spent, many: Spent, cycles: float, figure: Callable[[Spent], float]) -> TrainingTime:
    """Return the line through two trainings that are `cycles` apart."""
    slope = (figure(many) - figure(few)) / cycles
    return TrainingTime(slope, figure(few))
