"""What a worker's next training will take, learned from what updates say others of its kind took.

One law of time and one of energy for each kind of device, T = A·F + B: a known phone starts from
its profile, any other device from its first report. A report counts by the logarithm of its error
and no further than a factor of two, so that one liar among ten moves a law by about a tenth.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from dealfl.errors import BadInput
from dealfl.messages import Update
from dealfl.power import (
    CYCLES,
    PHONES,
    PhoneSpending,
    Spent,
    TimeEstimate,
    Training,
    TrainingTime,
)
from dealfl.server.tables import WorkerRow

__all__ = ["Outlook", "Prediction", "Predictions"]

_VERSION = 1
_MOST_DEVICES = 256  # kinds; the one unheard of longest is forgotten first
_LONGEST_NAME = 200
_NEW = 0.2  # the weight of a new report in a running mean
_BOUNDS = {"operations": 1e15, "elapsed_s": 1e6, "energy_j": 1e6}
_MANY_OPERATIONS = 10**9
_NEW_SHARE = 0.05
_ERRORS = 200
_WILDEST = 2.0  # times what was expected; more is not believed at once


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a training is expected to take, this worker's wake-up included."""

    elapsed_s: float
    energy_j: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """What to expect of all devices of one kind: two lines over examples."""

    operations_per_example: float
    evicted_share: float  # of those held; each counts as much as so many learned
    time: TrainingTime
    energy: TrainingTime | None  # joules for seconds

    def of(self, waiting: int, held: int) -> Prediction:
        """Return what learning so many examples will take, and evicting some of those held."""
        touched = waiting + self.evicted_share * held
        operations = self.operations_per_example * touched
        energy = self.energy
        energy_j = energy.seconds_per_operation * operations + energy.overhead_s if energy else 0.0
        elapsed_s = self.time.seconds_per_operation * operations + self.time.overhead_s
        return Prediction(elapsed_s, energy_j)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is known of one kind of device; 0 operations for an example: nothing yet."""

    time: TimeEstimate
    energy: TimeEstimate | None
    operations_per_example: float = 0.0


class Predictions:
    """Expects, and learns from what came; `state` survives restarts.

    Examples
    --------
    >>> from dealfl.server.tables import WorkerRow
    >>> honor = WorkerRow("w", waiting=10, device="honor")
    >>> known = Predictions("naive_bayes")
    >>> said = Update(job="j", worker="w", incarnation=1, sequence=1, round=1, delta=b"",
    ...               learned=10, operations=640, elapsed_s=0.004, energy_j=0.3)
    >>> for _ in range(20):
    ...     known.observed(honor, said)
    >>> round(known.of(honor).elapsed_s, 3), round(known.of(honor).energy_j, 1)
    (0.004, 0.3)
    """

    def __init__(self, learner: str) -> None:
        self._learner = learner
        cycles = CYCLES.get(learner)
        self._dearer = cycles.forget.per_operation / cycles.learn.per_operation if cycles else 1.0
        self._clear()

    def _clear(self) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._outlooks: dict[str, Outlook | None] = {}
        self._expected: dict[str, Prediction] = {}
        self._errors: deque[float] = deque(maxlen=_ERRORS)
        self._operations_per_example = 0.0
        self._evicted_share = 0.0
        self._state: bytes | None = None

    # -- what to expect -------------------------------------------------------------------------

    def of(self, row: WorkerRow) -> Prediction | None:
        """Return what a worker's next training will take; None if nothing like it is known."""
        outlook = self.outlook(row.device)
        return outlook.of(row.waiting, row.held) if outlook else None

    def outlook(self, device: str) -> Outlook | None:
        """Return what to expect of one kind of device."""
        if device not in self._outlooks:
            if len(self._outlooks) > 2 * _MOST_DEVICES:
                self._outlooks.clear()
            self._outlooks[device] = self._looked_out(device)
        return self._outlooks[device]

    def energy_j(self, row: WorkerRow) -> float:
        """Return what a worker that never answered may have spent."""
        prediction = self.of(row)
        return prediction.energy_j if prediction and prediction.energy_j else row.last_energy_j

    def _looked_out(self, device: str) -> Outlook | None:
        kind = self._kinds.get(device) or self._profiled(device)
        if kind is None:
            return None
        return Outlook(
            kind.operations_per_example or self._operations_per_example,
            self._dearer * self._evicted_share,
            kind.time.time,
            kind.energy.time if kind.energy else None,
        )

    def _profiled(self, device: str) -> _Kind | None:
        """Return what a phone's profile says."""
        if device not in PHONES or self._learner not in CYCLES:
            return None
        spending = PhoneSpending(PHONES[device], CYCLES[self._learner])
        few, many = (
            spending.of(Training(learned_operations=count)) for count in (1, _MANY_OPERATIONS)
        )
        time = _line(few, many, lambda spent: spent.whole.elapsed_s)
        energy = _line(few, many, lambda spent: spent.whole.total_j)
        return _Kind(TimeEstimate.prior(time), TimeEstimate.prior(energy))

    # -- what came ------------------------------------------------------------------------------

    def assigned(self, row: WorkerRow) -> None:
        """Take note of what is expected of a worker that trains now."""
        prediction = self.of(row)
        if prediction is not None:
            self._expected[row.name] = prediction

    def observed(self, row: WorkerRow, update: Update) -> None:
        """Learn from a worker's report; what can not be is not learned from."""
        expected = self._expected.pop(row.name, None)
        touched = max(update.learned, 0) + max(update.evicted, 0)
        if not _plausible(update) or touched <= 0 or len(row.device) > _LONGEST_NAME:
            return
        if expected is not None:
            self._errors.append(abs(expected.elapsed_s / update.elapsed_s - 1.0))
        per_example = update.operations / touched
        evicted = max(update.evicted, 0)
        self._operations_per_example = _mean(self._operations_per_example, per_example)
        share = min(evicted / max(row.held, 1), 1.0)
        self._evicted_share += _NEW_SHARE * (share - self._evicted_share)
        # an example forgotten is as much work as several learned
        work = per_example * (max(update.learned, 0) + self._dearer * evicted)
        kind = self._kinds.pop(row.device, None) or self._profiled(row.device)
        kind = _learned(kind or _first(work, update), work, update)
        rate = _mean(kind.operations_per_example, per_example)
        self._kinds[row.device] = replace(kind, operations_per_example=rate)
        while len(self._kinds) > _MOST_DEVICES:
            del self._kinds[next(iter(self._kinds))]
        self._outlooks.clear()
        self._state = None

    @property
    def median_error(self) -> float | None:
        """The median relative error of the last times expected, since the start."""
        return median(self._errors) if self._errors else None

    # -- what survives --------------------------------------------------------------------------

    def state(self) -> bytes:
        """Return what must survive a restart; the same object as long as nothing changes."""
        if self._state is None:
            content = {
                "version": _VERSION,
                "learner": self._learner,
                "operations_per_example": self._operations_per_example,
                "evicted_share": self._evicted_share,
                "kinds": {name: _as_dict(kind) for name, kind in self._kinds.items()},
            }
            self._state = json.dumps(content).encode()
        return self._state

    def restore(self, state: bytes) -> None:
        """Go on from a state; from nothing if it is empty, of another version or damaged."""
        self._clear()
        try:
            content = json.loads(state) if state else {}
            if content.get("version") != _VERSION or content.get("learner") != self._learner:
                return
            kinds = {name: _from_dict(table) for name, table in content["kinds"].items()}
            rate, share = float(content["operations_per_example"]), float(content["evicted_share"])
        except (BadInput, ValueError, KeyError, TypeError, AttributeError):
            return
        self._kinds, self._operations_per_example, self._evicted_share = kinds, rate, share
        self._state = state


def _plausible(update: Update) -> bool:
    figures = {name: getattr(update, name) for name in _BOUNDS}
    within = all(0.0 <= figure <= _BOUNDS[name] for name, figure in figures.items())
    return within and update.operations > 0 and update.elapsed_s > 0.0


def _first(work: float, update: Update) -> _Kind:
    time = TrainingTime(update.elapsed_s / work, 0.0)
    return _Kind(TimeEstimate.prior(time), None)


def _learned(kind: _Kind, work: float, update: Update) -> _Kind:
    energy = kind.energy
    if update.energy_j > 0.0:
        start = TrainingTime(update.energy_j / work, 0.0)
        energy = _improved(energy or TimeEstimate.prior(start), work, update.energy_j)
    time = _improved(kind.time, work, update.elapsed_s)
    return replace(kind, time=time, energy=energy)


def _improved(estimate: TimeEstimate, operations: float, figure: float) -> TimeEstimate:
    if estimate.observations == 0:
        estimate = TimeEstimate.prior(_through(estimate.time, operations, figure))
    most = _WILDEST * estimate.predicted_s(operations)
    return estimate.observed(operations, min(figure, most) if most else figure)


def _through(line: TrainingTime, operations: float, figure: float) -> TrainingTime:
    """Return a profile's line as the first report moves it.

    A profile knows nothing of the bytes of this job: what a report has more is overhead.
    """
    working = line.seconds_per_operation * operations
    if figure > working:
        return replace(line, overhead_s=figure - working)
    return replace(line, seconds_per_operation=figure / operations, overhead_s=0.0)


def _mean(present: float, new: float) -> float:
    return present + _NEW * (new - present) if present else new


def _line(few: Spent, many: Spent, figure: Callable[[Spent], float]) -> TrainingTime:
    slope = (figure(many) - figure(few)) / (many.operations - few.operations)
    return TrainingTime(slope, max(figure(few) - slope * few.operations, 0.0))


def _as_dict(kind: _Kind) -> dict[str, object]:
    return {
        "time": kind.time.as_dict(),
        "energy": kind.energy.as_dict() if kind.energy else None,
        "operations_per_example": kind.operations_per_example,
    }


def _from_dict(table: Mapping[str, Any]) -> _Kind:
    energy = table["energy"]
    return _Kind(
        TimeEstimate.from_dict(table["time"]),
        TimeEstimate.from_dict(energy) if energy else None,
        float(table["operations_per_example"]),
    )
