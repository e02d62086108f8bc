"""The rule of the roster, worker by worker: `dealfl.server.roster` has it on columns."""

import heapq
import math

from msgspec.structs import replace

from dealfl.protocol import Rules
from dealfl.server import WorkerRow
from dealfl.server.predictions import Predictions
from dealfl.server.roster import MAX_WEIGHT
from dealfl.server.selection import Candidate

_DAY_S = 86_400.0
_EARLY_S = 1e-3
_SPARE = 1000
_MIN_BATTERY = 0.1


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


class PlainRoster(dict[str, WorkerRow]):
    """A `Roster` that looks at one worker after the other."""

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
    has_called = not row.call_by_s  # those asleep can be selected later
    if has_called and (row.rides or _overdue(row, rules, now_s)):
        weight = MAX_WEIGHT
    return Candidate(row.name, weight, expected.elapsed_s if expected else None, energy_j)


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
    waited_s = now_s - row.waiting_since_s
    return waited_s < 0.0 or waited_s >= rules.max_wait_s - _EARLY_S


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
