"""The roster: what messages change in the row of a worker, and an index of who can be selected."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dealfl.protocol import Announce, Rules, Update
from dealfl.server.ledger_reader import WorkerRow
from dealfl.server.predictions import Predictions
from dealfl.server.selection import Candidates

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]

MAX_WEIGHT = 100.0  # examples; more do not increase the weight
DAY_S = 86_400.0
EARLY_S = 1e-3  # sums of times are rounded
_MIN_BATTERY = 0.1

Indices = NDArray[np.int64]

_NOBODY: Indices = np.empty(0, np.int64)
_SPARE = 1000
_MAX_DOUBTS = 10  # the weight of a worker is halved for each


def note_announcement(row: WorkerRow, message: Announce, fits: bool, now_s: float) -> WorkerRow:
    """Return a worker's row after an announcement."""
    same_process = message.session == row.session  # one that has ended trains no more
    since_s = row.waiting_since_s if row.waiting or row.call_by_s else now_s
    if message.sleeps and message.per_hour and not row.call_by_s:  # its examples came meanwhile
        since_s = min(since_s, now_s - 3600.0 * message.waiting / message.per_hour)
    return replace(
        row,
        session=message.session,
        waiting=message.waiting,
        held=message.held,
        device=message.device,
        battery=message.battery,
        charging=message.charging,
        capacity_j=message.capacity_j,
        # the message may be older than the assignment
        training=message.training or (row.training and same_process and now_s < row.busy_until_s),
        fits=fits,
        heard_s=now_s,
        asleep=False,
        sleeps=message.sleeps,
        rides=message.rides,
        per_hour=message.per_hour or row.per_hour,
        call_by_s=0.0,
        # after the clock jumped back, examples must not wait longer
        waiting_since_s=min(since_s, now_s),
    )


def note_reply(row: WorkerRow, trained: int, update: Update, now_s: float) -> WorkerRow:
    """Return a worker's row after a training; the remaining examples arrived since."""
    left = max(row.waiting - trained, 0)
    return replace(
        row,
        training=False,
        waiting=left,
        waiting_since_s=now_s,
        learned=row.learned + update.learned,
        evicted=row.evicted + update.evicted,
        alarmed_s=now_s if update.alarmed else row.alarmed_s,
    )


def note_spending(row: WorkerRow, energy_j: float, now_s: float) -> WorkerRow:
    """Return a worker's row after it spent energy."""
    if not 0 <= now_s - row.spent_since_s < DAY_S:
        row = replace(row, spent_j=0.0, spent_since_s=now_s)
    used_j = max(energy_j, 0.0)  # training returns no charge
    return replace(row, spent_j=row.spent_j + used_j, last_energy_j=used_j)


def correct_spending(row: WorkerRow, assumed_j: float, energy_j: float, now_s: float) -> WorkerRow:
    """Return a worker's row with reported energy in place of assumed energy."""
    return note_spending(replace(row, spent_j=max(row.spent_j - assumed_j, 0.0)), energy_j, now_s)


def note_decline(row: WorkerRow) -> WorkerRow:
    """Return a worker's row after it declined; it announces itself when it can train again."""
    return replace(row, training=False, asleep=True)


def note_doubt(row: WorkerRow, doubtful: bool) -> WorkerRow:
    """Return a worker's row with a doubt more, or one less after a training that fits."""
    doubts = row.doubts + 1 if doubtful else row.doubts - 1
    return replace(row, doubts=min(max(doubts, 0), _MAX_DOUBTS))


def note_sleep(row: WorkerRow, waiting: int, within_s: float, now_s: float) -> WorkerRow:
    """Return a worker's row after it was sent to sleep."""
    call_by_s = now_s + within_s
    return replace(
        row,
        waiting=0,
        call_waiting=waiting,
        call_by_s=call_by_s,
        waiting_since_s=row.waiting_since_s if row.waiting else now_s,
        busy_until_s=call_by_s if row.training else row.busy_until_s,  # its assignment waits longer
    )


def find_call_size(row: WorkerRow, rules: Rules, predictions: Predictions) -> int:
    """Return for how many waiting examples a worker is worth being woken."""
    worth = _worth_its_price(row, rules, predictions)
    return max(rules.min_waiting, rules.min_examples_per_update, worth)


def _worth_its_price(row: WorkerRow, rules: Rules, predictions: Predictions) -> int:
    """Return the number of examples for which calls and waiting together cost least.

    With n examples a call, n / 2 of them wait on average, at `wait_j` joules an hour each; calls
    cost price · rate / n an hour. The sum is least for n = √(2 · price · rate / wait_j).
    """
    if not rules.wait_j or not row.learned:  # its price is not known yet
        return 1
    cost_j = 2.0 * predictions.predict_energy_j(row) * row.per_hour
    return round(math.sqrt(cost_j / rules.wait_j))


def find_rest_s(row: WorkerRow, rules: Rules, now_s: float) -> float:
    """Return how long a worker can sleep: none of its examples waits longer than `max_wait_s`."""
    if row.waiting < rules.min_examples_per_update:
        return rules.max_wait_s
    left_s = row.waiting_since_s + rules.max_wait_s - now_s
    return 0.0 if now_s - row.waiting_since_s >= rules.max_wait_s - EARLY_S else left_s


class Columns(NamedTuple):
    """The fields of many workers that decide who can be selected; flags are 0 or 1.

    A worker can be selected if it is present, idle, compatible with the job, has waiting examples
    and stays within its energy budget. Its weight is the number of waiting examples, discounted by
    the energy of each. An example counts 1 if it costs nothing and 1/2 at `half_example_j` joules:

        weight = min(waiting, 100) / (1 + joules per example / half_example_j)

    Predicted energy covers the whole device, so all waiting examples share the fixed cost of a
    wake-up. On a battery, a joule counts more the emptier the battery is; on a charger it counts
    once. A worker that sleeps can be selected, too: its assignment waits until it calls. It has
    announced at which rate examples reach it, so the number that will wait then is forecast.
    """

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
        """Return whose examples wait for too long; or since before the clock jumped back."""
        waited_s = now_s - self.waiting_since_s
        return (waited_s < 0.0) | (waited_s >= rules.max_wait_s - EARLY_S)

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


class Roster(dict[str, WorkerRow]):
    """All known workers by name, indexed by when each can be selected.

    Rows that changed are copied into columns before each search. A worker that cannot be
    selected is looked at again when its row changes, when enough time has passed, or, if only its
    budget is too small, after new reports. New rules and a clock that jumps back start a new index.
    """

    _now_s = -math.inf
    _rules: Rules | None = None
    _reports = -1

    def __setitem__(self, name: str, row: WorkerRow) -> None:
        super().__setitem__(name, row)
        if self._rules is not None:
            self._changed.add(name)

    @np.errstate(over="ignore", invalid="ignore")  # workers announce any rate
    def find_candidates(
        self, rules: Rules, now_s: float, predictions: Predictions | None = None
    ) -> Candidates:
        """Return all workers that can be selected now, sorted by name."""
        self._refresh(rules, now_s, predictions)
        numbers = self._order[self._due[self._order]]
        columns = self._columns.part(numbers).at(rules, now_s)
        awake, able = columns.is_awake(rules, now_s), columns.is_able(rules, now_s)
        self._due[numbers[~awake]] = False  # until their next announcement
        early = np.flatnonzero(awake & ~able)
        self._look_again(numbers[early], columns.waiting_since_s[early] + rules.max_wait_s)
        ready = np.flatnonzero(awake & able)
        numbers, columns = numbers[ready], columns.part(ready)
        elapsed_s, energy_j = self._predict(numbers, columns, predictions)
        affords = columns.affords(rules, now_s, energy_j)
        poor, rich = np.flatnonzero(~affords), np.flatnonzero(affords)
        self._poor[numbers[poor]] = True
        self._look_again(numbers[poor], columns.spent_since_s[poor] + DAY_S)
        return Candidates(
            self,
            self._names[numbers[rich]].tolist(),
            numbers[rich],
            columns.weigh(rules, now_s, energy_j)[rich],
            elapsed_s[rich],
            energy_j[rich],
        )

    def _predict(
        self, numbers: Indices, columns: Columns, predictions: Predictions | None
    ) -> tuple[Floats, Floats]:
        """Return the expected time and energy of each worker; NaN if it is unknown."""
        figures = np.full((2, len(numbers)), np.nan)
        kinds = self._kind_of[numbers]
        counts = np.bincount(kinds, minlength=1) if predictions is not None else _NOBODY
        for kind in np.flatnonzero(counts).tolist():
            assert predictions is not None
            alike = kinds == kind if counts[kind] < len(kinds) else slice(None)
            waiting, held = columns.waiting[alike], columns.held[alike]
            expected = predictions.predict_many(self._kinds[kind], waiting, held)
            if expected is not None:
                figures[:, alike] = expected
        figures[1, figures[1] == 0.0] = np.nan
        return figures[0], figures[1]

    @property
    def look_again_s(self) -> float | None:
        """When a worker may be a candidate, after the last search, although no row changes."""
        later = self._later if self._rules is not None else []
        return later[0][0] + 2.0 * EARLY_S if later else None

    def _look_again(self, numbers: Indices, times_s: Floats) -> None:
        """Look at workers again at some times, or in every search if these are over."""
        is_later = times_s - EARLY_S > self._now_s
        self._due[numbers] = ~is_later
        pairs = zip(numbers[is_later].tolist(), times_s[is_later].tolist(), strict=True)
        for number, time_s in pairs:
            heapq.heappush(self._later, (time_s - EARLY_S, number))

    def _refresh(self, rules: Rules, now_s: float, predictions: Predictions | None) -> None:
        """Bring the index up to date with rows, time, rules and predictions."""
        if self._rules is None:
            self._start()
        self._copy_changed()
        outdated = self._rules != rules or now_s < self._now_s
        if outdated or len(self._later) > 2 * len(self) + _SPARE:
            self._due = self._columns.selectable > 0
            self._poor[:] = False
            self._later: list[tuple[float, int]] = []
        self._rules = rules
        self._now_s = now_s
        reports = predictions.reports if predictions else 0
        if reports != self._reports:
            self._reports = reports
            self._due |= self._poor
            self._poor[:] = False
        while self._later and self._later[0][0] <= now_s:
            _, number = heapq.heappop(self._later)
            self._due[number] = self._columns.selectable[number] > 0

    # -- columns --------------------------------------------------------------------------------

    def _start(self) -> None:
        self._changed = set(self)
        self._number_of: dict[str, int] = {}
        self._names = np.empty(0, object)  # by number
        self._order = np.empty(0, np.int64)  # numbers in the order of names
        self._columns = Columns(*np.empty((len(Columns._fields), 0)))
        self._kinds: list[str] = []  # of devices
        self._code_of: dict[str, int] = {}
        self._kind_of = np.empty(0, np.int64)
        self._due = np.empty(0, np.bool_)
        self._poor = np.empty(0, np.bool_)

    def _copy_changed(self) -> None:
        """Copy the rows that changed into the columns."""
        if not self._changed:
            return
        if new := sorted(self._changed - self._number_of.keys()):
            self._add(new)
        rows = [self[name] for name in self._changed]
        numbers = np.array([self._number_of[name] for name in self._changed])
        for column, values in zip(self._columns, Columns.of(rows), strict=True):
            column[numbers] = values
        self._kind_of[numbers] = [self._find_code(row.device) for row in rows]
        self._due[numbers] = self._columns.selectable[numbers] > 0
        self._poor[numbers] = False
        self._changed = set()

    def _add(self, names: list[str]) -> None:
        """Give new workers a number, and a place in the order of names."""
        numbers = np.arange(len(self._names), len(self._names) + len(names))
        places = np.searchsorted(self._names[self._order], np.array(names, object))
        self._order = np.insert(self._order, places, numbers)
        self._number_of |= zip(names, numbers.tolist(), strict=True)
        self._names = np.concatenate([self._names, np.array(names, object)])
        zeros = np.zeros(len(names))
        self._columns = Columns(*(np.concatenate([column, zeros]) for column in self._columns))
        self._kind_of = np.concatenate([self._kind_of, zeros.astype(np.int64)])
        self._due = np.concatenate([self._due, zeros > 0])
        self._poor = np.concatenate([self._poor, zeros > 0])

    def _find_code(self, device: str) -> int:
        """Return the number of a kind of device."""
        if device not in self._code_of:
            self._code_of[device] = len(self._kinds)
            self._kinds.append(device)
        return self._code_of[device]
