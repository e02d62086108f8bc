"""Predictions of the cost of a worker's next training, learned from devices of its kind.

A phone with a profile starts from it, any other device from its first report. Recent errors of a
law correct it further, because models grow and so does the time to download them.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from statistics import median

import msgspec

from dealfl.learners import Cycles, Learner, LearnerCycles
from dealfl.messages import Update
from dealfl.power import TrainingTime
from dealfl.server.device_laws import (
    DeviceLaws,
    current_law,
    improve,
    laws_from_profile,
    laws_from_report,
    running_mean,
)
from dealfl.server.tables import WorkerRow

__all__ = ["Prediction", "Predictions"]

_VERSION = 1
_MAX_DEVICES = 256  # kinds; the least recently seen is dropped first
_MAX_NAME = 200
_BOUNDS = {
    "operations": 1e15,
    "elapsed_s": 1e6,
    "energy_j": 1e6,
    "learned": 1e9,
    "evicted": 1e9,
}
_ALIKE = LearnerCycles(Cycles(1.0), Cycles(1.0))  # for a learner without measured cycles
_NEW_SHARE = 0.05
_LITTLE = 0.01  # share of the held examples by which evictions may grow at once
_ERRORS = 200


@dataclass(frozen=True, slots=True)
class _Known:
    """The state that survives a restart, as JSON."""

    version: int
    learner: str
    operations_per_example: float
    evicted_share: float
    evictions: int
    devices: dict[str, DeviceLaws]

    @property
    def is_sound(self) -> bool:
        figures = (self.operations_per_example, self.evicted_share, self.evictions)
        devices = self.devices.values()
        return all(figure >= 0 for figure in figures) and all(laws.is_sound for laws in devices)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The expected cost of a training, including the wake-up.

    Parameters
    ----------
    elapsed_s : float
        Time until the reply in seconds.
    energy_j : float
        Energy in joules; 0 if it is unknown.
    """

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

    def predict(self, waiting: int, held: int) -> Prediction:
        """Return the cost of learning `waiting` examples and evicting some of those held."""
        evicted = math.floor(self.evicted_share * held + 0.5)
        work = _cycles(self.cycles, self.operations_per_example, waiting, evicted)
        energy = self.energy
        energy_j = energy.seconds_per_operation * work + energy.overhead_s if energy else 0.0
        elapsed_s = self.time.seconds_per_operation * work + self.time.overhead_s
        return Prediction(elapsed_s, energy_j)


class Predictions:
    """Predictions of training costs, learned from the reports of workers.

    Parameters
    ----------
    learner : type of Learner
        Class of the job's learner; its measured cycles are the prior.

    Examples
    --------
    >>> from dealfl.learners import NaiveBayes
    >>> honor = WorkerRow("w", waiting=10, device="honor")
    >>> known = Predictions(NaiveBayes)
    >>> said = Update(job="j", worker="w", incarnation=1, sequence=1, round=1, delta=b"",
    ...               learned=10, operations=640, elapsed_s=0.004, energy_j=0.3)
    >>> for _ in range(20):
    ...     known.observe(honor, said)
    >>> round(known.predict(honor).elapsed_s, 3), round(known.predict(honor).energy_j, 1)
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
        self._operations_per_example = 0.0
        self._evicted_share = 0.0
        self._evictions = 0  # number of trainings with something to evict
        self._state: bytes | None = None

    # -- predictions ----------------------------------------------------------------------------

    def predict(self, row: WorkerRow) -> Prediction | None:
        """Return the expected cost of a worker's next training.

        Parameters
        ----------
        row : WorkerRow
            The worker, with its device and its numbers of examples.

        Returns
        -------
        Prediction or None
            None if no device of this kind has reported and no profile exists.
        """
        outlook = self._outlook(row.device)
        return outlook.predict(row.waiting, row.held) if outlook else None

    def _outlook(self, device: str) -> _Outlook | None:
        """Return the expectation for one kind of device."""
        if device not in self._outlooks:
            if len(self._outlooks) > 2 * _MAX_DEVICES:
                self._outlooks.clear()
            self._outlooks[device] = self._new_outlook(device)
        return self._outlooks[device]

    def predict_energy_j(self, row: WorkerRow) -> float:
        """Return the energy that a worker without a reply may have spent.

        Parameters
        ----------
        row : WorkerRow
            The worker.

        Returns
        -------
        float
            Energy in joules: the prediction, or else that of its last training.
        """
        prediction = self.predict(row)
        return prediction.energy_j if prediction and prediction.energy_j else row.last_energy_j

    def _new_outlook(self, device: str) -> _Outlook | None:
        laws = self._laws.get(device) or laws_from_profile(device, self._measured)
        if laws is None:
            return None
        return _Outlook(
            laws.operations_per_example or self._operations_per_example,
            self._evicted_share,
            self._cycles,
            current_law(laws.time),
            current_law(laws.energy) if laws.energy else None,
        )

    # -- reports --------------------------------------------------------------------------------

    def expect(self, row: WorkerRow) -> None:
        """Store the prediction for a worker that trains now, to compare it with the report.

        Parameters
        ----------
        row : WorkerRow
            The worker.
        """
        prediction = self.predict(row)
        if prediction is not None:
            self._expected[row.name] = prediction

    def observe(self, row: WorkerRow, update: Update) -> None:
        """Learn from a worker's report; an implausible report is ignored.

        Parameters
        ----------
        row : WorkerRow
            The worker as it was before the training.
        update : Update
            Its update, with work, time and energy.
        """
        expected = self._expected.pop(row.name, None)
        if not _plausible(update) or len(row.device) > _MAX_NAME:
            return
        if expected is not None:
            self._errors.append(abs(expected.elapsed_s / update.elapsed_s - 1.0))
        per_example = update.operations / (update.learned + update.evicted)
        self._operations_per_example = running_mean(self._operations_per_example, per_example)
        if row.held > 0:
            share = min(update.evicted / row.held, 1.0)
            self._evictions += 1
            weight = max(1.0 / self._evictions, _NEW_SHARE)
            self._evicted_share = running_mean(self._evicted_share, share, weight, at_least=_LITTLE)
        work = _cycles(self._cycles, per_example, update.learned, update.evicted)
        laws = self._laws.pop(row.device, None) or laws_from_profile(row.device, self._measured)
        laws = laws or laws_from_report(work, update.elapsed_s)
        laws = improve(laws, work, update.elapsed_s, update.energy_j)
        rate = running_mean(laws.operations_per_example, per_example)
        self._laws[row.device] = replace(laws, operations_per_example=rate)
        while len(self._laws) > _MAX_DEVICES:
            del self._laws[next(iter(self._laws))]
        self._outlooks.clear()
        self._state = None

    @property
    def median_error(self) -> float | None:
        """Median relative error of the last 200 predicted times; None before the first."""
        return median(self._errors) if self._errors else None

    # -- restarts -------------------------------------------------------------------------------

    def state(self) -> bytes:
        """Return the state that must survive a restart.

        Returns
        -------
        bytes
            JSON; the same object until something changes.
        """
        if self._state is None:
            known = _Known(
                _VERSION,
                self._learner,
                self._operations_per_example,
                self._evicted_share,
                self._evictions,
                self._laws,
            )
            self._state = msgspec.json.encode(known)
        return self._state

    def restore(self, state: bytes) -> None:
        """Resume from a state. An empty, damaged or incompatible state starts from nothing.

        Parameters
        ----------
        state : bytes
            Result of `state`.
        """
        self._clear()
        try:
            known = msgspec.json.decode(state, type=_Known)
        except msgspec.DecodeError:
            return
        if known.version == _VERSION and known.learner == self._learner and known.is_sound:
            self._laws, self._operations_per_example = known.devices, known.operations_per_example
            self._evicted_share, self._evictions = known.evicted_share, known.evictions
            self._state = state


def _plausible(update: Update) -> bool:
    figures = {name: getattr(update, name) for name in _BOUNDS}
    within = all(0.0 <= figure <= _BOUNDS[name] for name, figure in figures.items())
    trained = update.operations > 0 and update.learned + update.evicted > 0
    return within and trained and update.elapsed_s > 0.0


def _cycles(cycles: LearnerCycles, per_example: float, learned: float, evicted: float) -> float:
    """Return the cycles to learn and evict; those of the call to learn count as overhead."""
    learning = cycles.learn.per_operation * per_example * learned
    return learning + cycles.forget.of(per_example * evicted)
