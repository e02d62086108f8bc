"""The rule by which workers can be selected, on columns of many workers.

A worker can be selected if it is present, idle, compatible with the job, has waiting examples and
stays within its energy budget. Its weight is the number of waiting examples, discounted by the
energy of each. An example counts 1 if it costs nothing and 1/2 at `half_example_j` joules:

    weight = min(waiting, 100) / (1 + joules per example / half_example_j)

Predicted energy covers the whole device, so all waiting examples share the fixed cost of a wake-up.
On a battery, a joule counts more the emptier the battery is; on a charger it counts once.

A worker that sleeps can be selected, too: its assignment waits until it calls. It has announced at
which rate examples reach it, so the number that will wait when it calls is forecast.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dealfl.protocol import Rules
from dealfl.server.ledger_reader import WorkerRow

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]

MAX_WEIGHT = 100.0  # examples; more do not increase the weight
DAY_S = 86_400.0
EARLY_S = 1e-3  # sums of times are rounded
_MIN_BATTERY = 0.1


class Columns(NamedTuple):
    """The fields of many workers that decide who can be selected; flags are 0 or 1."""

    waiting: Floats
    held: Floats
    battery: Floats
    charging: Floats
    capacity_j: Floats
    heard_s: Floats  # NaN after a removal
    spent_j: Floats
    spent_since_s: Floats
    last_energy_j: Floats
    waiting_since_s: Floats
    doubts: Floats
    rides: Floats
    per_hour: Floats
    call_waiting: Floats
    call_by_s: Floats
    selectable: Floats  # at some time without a change of the row

    @classmethod
    def of(cls, rows: Iterable[WorkerRow]) -> Columns:
        """Return the columns of rows."""
        values = [(*_values_of(row), _is_selectable(row)) for row in rows]
        return cls(*np.array(values, dtype=np.float64).T)

    def part(self, which: NDArray[np.int64]) -> Columns:
        """Return the columns of some of the workers."""
        if len(which) == len(self.waiting) and (np.diff(which) == 1).all():
            return self  # all of them, as a rule
        return Columns(*(column.take(which) for column in self))

    def at(self, rules: Rules, now_s: float) -> Columns:
        """Return the columns with the number of examples that may wait now, or soon."""
        calls = self.call_by_s > 0
        return self._replace(
            waiting=np.where(calls, _forecast(self, rules, now_s), _with_arrivals(self, now_s))
        )

    def is_awake(self, rules: Rules, now_s: float) -> Masks:
        """Return who is present, or calls in time."""
        calls_s = self.call_by_s + rules.ttl_s
        # after the clock jumped back, `heard_s` may be in the future: the worker is awake
        present = now_s - self.heard_s <= rules.presence_timeout_s
        return np.where(self.call_by_s > 0, now_s <= calls_s, present)

    def is_able(self, rules: Rules, now_s: float) -> Masks:
        """Return who has enough examples."""
        enough = self.waiting >= rules.min_examples_per_update
        worth = (self.waiting >= rules.min_waiting) | (self.rides > 0)
        return (self.call_by_s > 0) | (enough & (worth | self.is_overdue(rules, now_s)))

    def is_overdue(self, rules: Rules, now_s: float) -> Masks:
        """Return whose examples wait for too long."""
        return now_s - self.waiting_since_s >= rules.max_wait_s - EARLY_S

    def affords(self, rules: Rules, now_s: float, energy_j: Floats) -> Masks:
        """Return who stays within its budget with the expected energy, or the last if unknown."""
        needed_j = np.where(np.isnan(energy_j), self.last_energy_j, energy_j)
        passed_s = now_s - self.spent_since_s
        is_old = (passed_s >= 0) & (passed_s < DAY_S)
        already_j = np.where(is_old, self.spent_j, 0.0)
        within = already_j + needed_j <= rules.battery_budget * self.capacity_j
        return (self.charging > 0) | (self.capacity_j <= 0) | within

    def weigh(self, rules: Rules, now_s: float, energy_j: Floats) -> Floats:
        """Return the weight of each; it is the largest for who has called and is overdue."""
        weight = np.minimum(self.waiting, MAX_WEIGHT) * 0.5**self.doubts
        if half_example_j := rules.rewards.half_example_j:
            example_j = energy_j / self.waiting
            charge = np.minimum(np.maximum(self.battery, _MIN_BATTERY), 1.0)
            example_j = np.where(self.charging > 0, example_j, example_j / charge)
            priced = weight / (1.0 + example_j / half_example_j)
            weight = np.where(np.isnan(energy_j), weight, priced)
        first = (self.call_by_s <= 0) & (self.is_overdue(rules, now_s) | (self.rides > 0))
        return np.where(first, MAX_WEIGHT, weight)


_values_of = attrgetter(*Columns._fields[:-1])


def _is_selectable(row: WorkerRow) -> bool:
    idle = not row.training and row.heard_s is not None
    return row.fits and idle and (row.call_by_s > 0 or (row.waiting >= 1 and not row.asleep))


def _forecast(columns: Columns, rules: Rules, now_s: float) -> Floats:
    """Return the number of examples of sleeping workers that may wait soon.

    Twice the time that it has slept is assumed. An assignment can wait, but a worker that calls
    without one pays for a burst of its own.
    """
    slept_h = (now_s - columns.call_by_s + rules.max_wait_s) / 3600.0
    expected = np.where(columns.per_hour > 0, 2.0 * slept_h * columns.per_hour, np.inf)
    late = 2.0 * slept_h * 3600.0 >= rules.max_wait_s
    soon = np.minimum(columns.call_waiting, np.trunc(expected))
    return np.maximum(np.where(late, columns.call_waiting, soon), 1.0)


def _with_arrivals(columns: Columns, now_s: float) -> Floats:
    """Return the number of examples of connected workers, with those since their announcement."""
    heard_s = np.where(columns.heard_s == 0.0, now_s, columns.heard_s)
    passed_s = np.maximum(now_s - heard_s, 0.0)
    return columns.waiting + np.trunc(passed_s / 3600.0 * columns.per_hour)
