"""Meters of a worker's cost: modelled from a phone's profile, or measured where it runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from dealfl.errors import DealError
from dealfl.power import PhoneSpending, Spent, Training
from dealfl.power.meters import Meter as PowerMeter
from dealfl.power.meters import Reading
from dealfl.worker.trainer import Cost, Done

__all__ = ["MeasuredMeter", "PhoneMeter"]


class PhoneMeter:
    """Models what each training costs a phone, and adds up what was spent.

    >>> from dealfl.learners import Work
    >>> from dealfl.power import cycles_of, phone
    >>> meter = PhoneMeter(PhoneSpending(phone("honor"), cycles_of("naive_bayes")))
    >>> cost = meter.cost(Done(learned=Work(10**6, 0), sent_bytes=10_000))
    >>> cost.source, cost.energy_j == meter.spent.whole.total_j
    ('modelled', True)
    """

    def __init__(self, spending: PhoneSpending) -> None:
        self.spent = Spent()
        self._spending = spending

    def start(self) -> None:
        """Do nothing: a model needs no beginning."""

    def cost(self, done: Done) -> Cost:
        """Return what was done costs this phone."""
        spent = self._spending.of(_training(done))
        self.spent = self.spent + spent
        transfer_s = spent.radio.elapsed_s
        return Cost(spent.compute.elapsed_s, spent.whole.total_j, transfer_s=transfer_s)


def _training(done: Done) -> Training:
    scratch = done.learned.operations * done.held / done.examples if done.examples else 0.0
    return Training(
        learned_operations=done.learned.operations,
        forgotten_operations=done.forgotten.operations,
        scratch_operations=scratch,
        fetched_bytes=done.fetched_bytes,
        sent_bytes=done.sent_bytes,
        wakes=done.wakes,
    )


class MeasuredMeter:
    """Measures how long work takes here, and its energy where a meter of power can tell.

    Where none can (a gauge steps by joules, a charger hides what is drawn), a model says what
    the energy was; without one it is 0, and its source says so.
    """

    def __init__(
        self,
        power: PowerMeter | None = None,
        model: PhoneMeter | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._power, self._model, self._clock = power, model, clock
        self._started_s = clock()
        self._metering = False

    def start(self) -> None:
        """Take note of the time, and begin to count energy."""
        self._metering = self._power is not None
        if self._power is not None:
            try:
                self._power.start()
            except DealError:
                self._metering = False
        self._started_s = self._clock()

    def cost(self, done: Done) -> Cost:
        """Return what was done since the start took."""
        elapsed_s = max(self._clock() - self._started_s, 0.0)
        modelled = self._model.cost(done) if self._model else None
        reading = self._reading()
        if reading is not None and reading.energy_j > 0.0:
            return Cost(elapsed_s, reading.energy_j, reading.source.kind.value)
        if modelled is not None:
            return Cost(elapsed_s, modelled.energy_j)
        return Cost(elapsed_s, 0.0, "not known")

    def _reading(self) -> Reading | None:
        if not self._metering or self._power is None:
            return None
        try:
            return self._power.read()
        except DealError:
            return None
