"""The roster: which workers can be selected, and the weight of each.

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

import heapq
import math
from bisect import bisect_left

from msgspec.structs import replace

from dealfl.protocol import Announce, Rules, Update
from dealfl.server.ledger_reader import WorkerRow
from dealfl.server.predictions import Predictions
from dealfl.server.selection import Candidate

MAX_WEIGHT = 100.0  # examples; more do not increase the weight
_MIN_BATTERY = 0.1
_DAY_S = 86_400.0
_EARLY_S = 1e-3  # sums of times are rounded
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
    if not 0 <= now_s - row.spent_since_s < _DAY_S:
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


def find_call_size(
    row: WorkerRow, rules: Rules, predictions: Predictions, least_weight: float
) -> int:
    """Return for how many waiting examples a worker is worth being woken."""

    def is_worth(examples: int) -> bool:
        calling = replace(row, waiting=examples, doubts=0)
        expected = predictions.predict(calling)
        energy_j = expected.energy_j if expected else None
        return compute_weight(calling, energy_j, rules.rewards.half_example_j) >= least_weight

    least = max(
        rules.min_waiting, rules.min_examples_per_update, _worth_its_price(row, rules, predictions)
    )
    sizes = range(least, max(int(MAX_WEIGHT), least))
    return least + bisect_left(sizes, True, key=is_worth)


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
    return 0.0 if _overdue(row, rules, now_s) else row.waiting_since_s + rules.max_wait_s - now_s


def forecast(row: WorkerRow, rules: Rules, now_s: float) -> WorkerRow:
    """Return a sleeping worker's row with the number of examples that may wait soon.

    Twice the time that it has slept is assumed. An assignment can wait, but a worker that calls
    without one pays for a burst of its own.
    """
    slept_h = (now_s - row.call_by_s + rules.max_wait_s) / 3600.0
    expected = 2.0 * slept_h * row.per_hour if row.per_hour else row.call_waiting
    late = 2.0 * slept_h * 3600.0 >= rules.max_wait_s
    waiting = row.call_waiting if late else min(row.call_waiting, int(expected))
    return replace(row, waiting=max(waiting, 1))


def _with_arrivals(row: WorkerRow, now_s: float) -> WorkerRow:
    """Return a connected worker's row with the examples that came since its announcement."""
    passed_s = now_s - (row.heard_s or now_s)
    arrived = int(max(passed_s, 0.0) / 3600.0 * row.per_hour)
    return replace(row, waiting=row.waiting + arrived) if arrived else row


class Roster(dict[str, WorkerRow]):
    """All known workers by name, indexed by when each can be selected.

    Finding candidates costs their number, not a scan of all workers. A worker that cannot be
    selected is looked at again when its row changes, when enough time has passed, or, if only its
    budget is too small, after new reports. New rules and a clock that jumps back start a new index.
    """

    _now_s = -math.inf
    _rules: Rules | None = None
    _reports = -1

    def __setitem__(self, name: str, row: WorkerRow) -> None:
        super().__setitem__(name, row)
        if self._rules is not None:
            self._poor.discard(name)
            (self._due.add if _selectable(row) else self._due.discard)(name)

    def find_candidates(
        self, rules: Rules, now_s: float, predictions: Predictions | None = None
    ) -> list[Candidate]:
        """Return all workers that can be selected now, sorted by name."""
        self._refresh(rules, now_s, predictions)
        candidates = []
        for name in sorted(self._due):
            row = self[name]
            row = forecast(row, rules, now_s) if row.call_by_s else _with_arrivals(row, now_s)
            if not _awake(row, rules, now_s):
                self._due.remove(name)  # until its next announcement
            elif not _able(row, rules, now_s):
                self._look_again(name, row.waiting_since_s + rules.max_wait_s)
            else:
                candidate = _candidate(row, rules, now_s, predictions)
                if candidate is None:
                    self._poor.add(name)
                    self._look_again(name, row.spent_since_s + _DAY_S)
                else:
                    candidates.append(candidate)
        return candidates

    def _look_again(self, name: str, time_s: float) -> None:
        self._due.remove(name)
        heapq.heappush(self._later, (time_s - _EARLY_S, name))

    def _refresh(self, rules: Rules, now_s: float, predictions: Predictions | None) -> None:
        """Bring the index up to date with the time, the rules and the predictions."""
        outdated = self._rules != rules or now_s < self._now_s
        if outdated or len(self._later) > 2 * len(self) + _SPARE:
            self._due = {name for name, row in self.items() if _selectable(row)}
            self._later: list[tuple[float, str]] = []
            self._poor: set[str] = set()
        self._rules = rules
        self._now_s = now_s
        reports = predictions.reports if predictions else 0
        if reports != self._reports:
            self._reports = reports
            self._due |= self._poor
            self._poor.clear()
        while self._later and self._later[0][0] <= now_s:
            _, name = heapq.heappop(self._later)
            if name in self and _selectable(self[name]):
                self._due.add(name)


def _candidate(
    row: WorkerRow, rules: Rules, now_s: float, predictions: Predictions | None
) -> Candidate | None:
    """Return a worker that is awake and has examples; None if its budget is too small."""
    expected = predictions.predict(row) if predictions else None
    energy_j = expected.energy_j if expected and expected.energy_j else None
    if not _affords(row, rules, now_s, row.last_energy_j if energy_j is None else energy_j):
        return None
    weight = compute_weight(row, energy_j, rules.rewards.half_example_j)
    overdue = _overdue(row, rules, now_s)
    has_called = not row.call_by_s  # those asleep can be selected later
    if has_called and (overdue or row.rides):
        weight = MAX_WEIGHT
    return Candidate(row.name, weight, expected.elapsed_s if expected else None, energy_j, overdue)


def compute_weight(row: WorkerRow, energy_j: float | None, half_example_j: float) -> float:
    """Return the weight of a worker in the selection.

    Examples
    --------
    >>> row = WorkerRow("w", waiting=20, battery=0.5)
    >>> compute_weight(row, 1.0, 0.1), compute_weight(row, None, 0.1)
    (10.0, 20.0)
    """
    examples = min(float(row.waiting), MAX_WEIGHT) * 0.5**row.doubts
    if not energy_j or not half_example_j:
        return examples
    example_j = energy_j / row.waiting
    if not row.charging:
        example_j /= min(max(row.battery, _MIN_BATTERY), 1.0)
    return examples / (1.0 + example_j / half_example_j)


def _selectable(row: WorkerRow) -> bool:
    """Return whether a worker can be selected at some time without a change of its row."""
    idle = not row.training and row.heard_s is not None
    return row.fits and idle and (row.call_by_s > 0 or (row.waiting >= 1 and not row.asleep))


def _able(row: WorkerRow, rules: Rules, now_s: float) -> bool:
    if row.call_by_s > 0:
        return True
    enough = row.waiting >= rules.min_examples_per_update
    return enough and (row.waiting >= rules.min_waiting or row.rides or _overdue(row, rules, now_s))


def _overdue(row: WorkerRow, rules: Rules, now_s: float) -> bool:
    if row.call_by_s:  # it will call in any case
        return row.waiting >= row.call_waiting
    return now_s - row.waiting_since_s >= rules.max_wait_s - _EARLY_S


def _awake(row: WorkerRow, rules: Rules, now_s: float) -> bool:
    if row.call_by_s:
        return now_s <= row.call_by_s + rules.ttl_s
    # after the clock jumped back, `heard_s` may be in the future: the worker is awake
    return row.heard_s is not None and now_s - row.heard_s <= rules.presence_timeout_s


def _affords(row: WorkerRow, rules: Rules, now_s: float, energy_j: float) -> bool:
    if row.charging or row.capacity_j <= 0:
        return True
    fresh = not 0 <= now_s - row.spent_since_s < _DAY_S
    already_j = 0.0 if fresh else row.spent_j
    return already_j + energy_j <= rules.battery_budget * row.capacity_j
