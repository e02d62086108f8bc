"""Drift: a sequential test of the live model on new examples, before they are learned.

The test is Page's cumulative sum of log-likelihood ratios. The model misses a share p of the new
examples. Before a change, p is p₀, its share so far; after it, p is at least half-way to 1. The sum

    S = missed · log(p₁ / p₀) + hit · log((1 − p₁) / (1 − p₀)),   p₁ = (1 + p₀) / 2

runs over the trainings since it was last ≤ 0: this is the most likely moment of the change. An
alarm is raised if S reaches log 1000, so that a change has to be 1000 times as likely as none: a
model that misses half of its examples is alarmed falsely about once in 5,800 of them. All records
from before that moment are then evicted, and the test begins again.

These odds are those against a change that nobody else has noticed. If the server says that many
others have, 10 : 1 is enough. Nobody forgets on the word of others alone.

The model is the worker's own, so that nothing has to be fetched, and a worker that has evicted its
old records is not alarmed again by those that others still have in the shared model.
"""

from __future__ import annotations

import math

import msgspec

_ALARM = math.log(1000.0)
_AMONG_OTHERS = math.log(10.0)  # if many others were alarmed
_MIN_TESTED = 20  # examples from which p₀ is estimated
_MAX_TESTED = 400  # older tests count half, so that p₀ follows a model that learns


class DriftState(msgspec.Struct, array_like=True):
    """Counts of tested and missed examples; misses of scores between 0 and 1 are in thousandths."""

    tested: int = 0  # before the possible change
    missed: int = 0
    tested_since: int = 0
    missed_since: int = 0
    changed_at: int = 0  # id of the first record since then; 0 for none
    alarms: int = 0

    def note(self, score: float, count: int, first_id: int, *, others_alarmed: bool = False) -> int:
        """Note the score of the model on new records; return since which id, if that is an alarm.

        Examples
        --------
        >>> state = DriftState()
        >>> [state.note(0.9, 20, 100 * turn) for turn in range(1, 4)]
        [0, 0, 0]
        >>> state.note(0.2, 10, 400)
        400
        """
        missed = round(1000 * count * (1.0 - min(max(score, 0.0), 1.0)))
        if self.tested < _MIN_TESTED:
            self._settle(count, missed)
            return 0
        self.tested_since += count
        self.missed_since += missed
        self.changed_at = self.changed_at or first_id
        evidence = self._evidence()
        if evidence >= (_AMONG_OTHERS if others_alarmed else _ALARM):
            changed_at = self.changed_at
            self._restart()
            self.alarms += 1
            return changed_at
        if evidence <= 0.0:
            self._settle(self.tested_since, self.missed_since)
        return 0

    def _evidence(self) -> float:
        share = (self.missed / 1000 + 1) / (self.tested + 2)
        changed = (1.0 + share) / 2.0
        missed = self.missed_since / 1000
        hit = self.tested_since - missed
        return missed * math.log(changed / share) + hit * math.log((1 - changed) / (1 - share))

    def _settle(self, tested: int, missed: int) -> None:
        self.tested += tested
        self.missed += missed
        if self.tested > _MAX_TESTED:
            self.tested //= 2
            self.missed //= 2
        self.tested_since = self.missed_since = self.changed_at = 0

    def _restart(self) -> None:
        self.tested = self.missed = 0
        self._settle(0, 0)
