"""The roster: what messages change in the row of a worker, and an index of who can be selected."""

from __future__ import annotations

import heapq
import math

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dealfl.protocol import Announce, Rules, Update
from dealfl.server.candidates import DAY_S, EARLY_S, Columns, Floats
from dealfl.server.ledger_reader import WorkerRow
from dealfl.server.predictions import Predictions
from dealfl.server.selection import Candidates

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
    if row.waiting < max(rules.min_examples_per_update, 1):
        return rules.max_wait_s
    left_s = row.waiting_since_s + rules.max_wait_s - now_s
    return 0.0 if now_s - row.waiting_since_s >= rules.max_wait_s - EARLY_S else left_s


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

    def _look_again(self, numbers: Indices, times_s: Floats) -> None:
        self._due[numbers] = False
        for number, time_s in zip(numbers.tolist(), times_s.tolist(), strict=True):
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
