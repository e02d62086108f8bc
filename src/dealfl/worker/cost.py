"""The time and energy that work costs on a device, modelled or measured."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dealfl.errors import DealError
from dealfl.learners import Work
from dealfl.power import PhoneSpending, Spent, Training
from dealfl.power.meters import Meter as PowerMeter
from dealfl.power.meters import Reading

__all__ = ["Cost", "Done", "MeasuredMeter", "Meter", "PhoneMeter"]

_NO_WORK = Work(0, 0)
_log = logging.getLogger("dealfl.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The work of one training, its records, and the bytes sent and received.

    Parameters
    ----------
    learned, forgotten : Work
        Work of learning and of forgetting.
    reviewed : tuple of int
        Operations of each score of the live model that reviewed an eviction.
    examples, held : int
        Number of records that the worker trained on, and holds afterwards.
    fetched_bytes, sent_bytes : int
        Bytes received and sent.
    pages_in, pages_out : int
        Pages of a model that were read from and written to storage.
    refactorisations : int
        Times that the factor of a live model was computed from scratch again.
    wakes : bool
        Whether the device wakes up for this work; False if it is awake already.
    """

    learned: Work = _NO_WORK
    forgotten: Work = _NO_WORK
    reviewed: tuple[int, ...] = ()
    examples: int = 0
    held: int = 0
    fetched_bytes: int = 0
    sent_bytes: int = 0
    pages_in: int = 0
    pages_out: int = 0
    refactorisations: int = 0
    wakes: bool = True

    @property
    def work(self) -> Work:
        """The sum of learning and forgetting."""
        return self.learned + self.forgotten


@dataclass(frozen=True, slots=True)
class Cost:
    """The time and energy of one training.

    Parameters
    ----------
    elapsed_s : float
        Duration of the training, in seconds, without the transfer.
    energy_j : float
        Energy, in joules.
    source : str
        Source of the energy value: "modelled", the kind of a power meter, or "unknown".
    transfer_s : float
        Modelled duration of the transfer, in seconds; 0 if the transfer is real.
    is_measured : bool
        Whether the duration was measured, i.e. has passed already.
    """

    elapsed_s: float
    energy_j: float
    source: str = "modelled"
    transfer_s: float = 0.0
    is_measured: bool = False

    @property
    def delay_s(self) -> float:
        """Time until the update leaves, in seconds: measured time has passed already."""
        return 0.0 if self.is_measured else self.elapsed_s + self.transfer_s


class Meter(Protocol):
    """Interface of the meters that measure or model the cost of work."""

    def start(self) -> None:
        """Start to measure."""

    def cost(self, done: Done) -> Cost:
        """Return the cost of the work since the start.

        Parameters
        ----------
        done : Done
            The work since `start`.

        Returns
        -------
        Cost
            Time and energy of the work.
        """


class PhoneMeter:
    """A meter that models the cost of each training on a phone, and adds up the energy.

    Parameters
    ----------
    spending : PhoneSpending
        Energy model of the phone.

    Attributes
    ----------
    spent : Spent
        Total time and energy so far.

    Examples
    --------
    >>> from dealfl.learners import Work, cycles_of
    >>> from dealfl.power import phone
    >>> meter = PhoneMeter(PhoneSpending(phone("honor"), cycles_of("naive_bayes")))
    >>> cost = meter.cost(Done(learned=Work(10**6, 0), sent_bytes=10_000))
    >>> cost.source, cost.energy_j == meter.spent.whole.total_j
    ('modelled', True)
    """

    def __init__(self, spending: PhoneSpending) -> None:
        self.spent = Spent()
        self._spending = spending
        self._signals: list[int] = []

    def start(self) -> None:
        """Start with a clock that has no signal yet."""
        self._signals = []

    def signal(self, signal: int, /) -> None:
        """Take a worker's signal; the phone's clock follows it in the next `cost`.

        Parameters
        ----------
        signal : {1, -1, 0}
            +1 if the worker learns, -1 if it forgets, 0 if it is done.
        """
        self._signals.append(signal)

    def cost(self, done: Done) -> Cost:
        """Return the modelled cost of work on this phone, and add it to the total.

        Parameters
        ----------
        done : Done
            The work.

        Returns
        -------
        Cost
            Modelled time and energy.
        """
        spent = self._spending.of(_training(done, tuple(self._signals)))
        self.spent = self.spent + spent
        transfer_s = spent.radio.elapsed_s
        return Cost(spent.compute.elapsed_s, spent.whole.total_j, transfer_s=transfer_s)


def _training(done: Done, signals: tuple[int, ...]) -> Training:
    scratch = done.learned.operations * done.held / done.examples if done.examples else 0.0
    return Training(
        learned_operations=done.learned.operations,
        forgotten_operations=done.forgotten.operations,
        reviewed_operations=done.reviewed,
        scratch_operations=scratch,
        fetched_bytes=done.fetched_bytes,
        sent_bytes=done.sent_bytes,
        pages_in=done.pages_in,
        pages_out=done.pages_out,
        refactorisations=done.refactorisations,
        wakes=done.wakes,
        signals=signals,
    )


class MeasuredMeter:
    """A meter that measures the duration of work, and its energy if a power meter can.

    A power meter may have no reading: its steps can be larger than the energy of one training,
    and a charger hides the energy drawn. The model then gives the energy. Without a model the
    energy is 0 and its source is "unknown".

    Parameters
    ----------
    power : Meter or None
        Power meter of this machine, from `dealfl.power.meters`; None if it has none.
    model : PhoneMeter or None
        Energy model that replaces missing readings.
    clock : callable
        Returns the current time, in seconds.
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
        self._warned: set[str] = set()

    def start(self) -> None:
        """Record the start time, and start the power meter."""
        self._metering = self._power is not None
        if self._power is not None:
            try:
                self._power.start()
            except DealError as error:
                self._metering = False
                self._warn(str(error))
        self._started_s = self._clock()

    def cost(self, done: Done) -> Cost:
        """Return the measured cost of the work since the start.

        Parameters
        ----------
        done : Done
            The work since `start`; the energy model uses it.

        Returns
        -------
        Cost
            Measured time, and measured or modelled energy.
        """
        elapsed_s = max(self._clock() - self._started_s, 0.0)
        modelled = self._model.cost(done) if self._model else None
        reading = self._reading()
        if reading is not None and reading.energy_j > 0.0:
            kind = reading.source.kind.value
            return Cost(elapsed_s, reading.energy_j, kind, is_measured=True)
        if modelled is not None:
            return Cost(elapsed_s, modelled.energy_j, is_measured=True)
        return Cost(elapsed_s, 0.0, "unknown", is_measured=True)

    def _reading(self) -> Reading | None:
        if not self._metering or self._power is None:
            return None
        try:
            return self._power.read()
        except DealError as error:
            self._warn(str(error))
            return None

    def _warn(self, reason: str) -> None:
        """Log once why the meter has no reading; training continues without it."""
        if reason not in self._warned:
            self._warned.add(reason)
            _log.warning("energy is not measured: %s; training continues", reason)
