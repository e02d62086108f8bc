"""Alarms: which workers have noticed a change of the world lately.

A change of the world is one for many workers, and those with few examples notice it late. If enough
of a fleet was alarmed within two days, the server warns the others: less evidence of their own is
then enough (`dealfl.worker.drift`). It does not warn a worker that was alarmed itself, which has
forgotten the old world already. So others make a worker forget at most once in two days.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from dealfl.server.ledger_reader import WorkerRow

RECENT_S = 2 * 86_400.0
QUORUM = 3  # workers, so that neither one liar nor two speak for a small fleet
QUORUM_SHARE = 0.2  # of all: false alarms of a large fleet are far fewer


class Alarms:
    """The alarms of the last two days, from the rows of all workers.

    Examples
    --------
    >>> alarms = Alarms(WorkerRow(f"w{n}", alarmed_s=60.0 * n) for n in range(3))
    >>> alarms.warn("w7", workers=10, now_s=300.0), alarms.warn("w2", workers=10, now_s=300.0)
    (True, False)
    >>> alarms.warn("w7", workers=100, now_s=300.0), alarms.warn("w7", 10, now_s=RECENT_S)
    (False, False)
    """

    def __init__(self, rows: Iterable[WorkerRow]) -> None:
        self._at_s: dict[str, float] = {}  # by worker, oldest first
        self._over_s = -math.inf  # time of the last alarm that is no longer among them
        alarmed = [row for row in rows if row.alarmed_s is not None]
        for row in sorted(alarmed, key=lambda row: row.alarmed_s or 0.0):
            self.note(row)

    def note(self, row: WorkerRow) -> None:
        """Note the last alarm of a worker; a removed one has none."""
        at_s = row.alarmed_s
        if self._at_s.get(row.name) != at_s:
            self._at_s.pop(row.name, None)
            if at_s is not None and at_s > self._over_s:
                self._at_s[row.name] = at_s

    def warn(self, worker: str, workers: int, now_s: float) -> bool:
        """Return whether to warn a worker: enough of all workers were alarmed, others than it."""
        while self._at_s:
            oldest = next(iter(self._at_s))
            if now_s < self._at_s[oldest] + RECENT_S:
                break
            self._over_s = self._at_s.pop(oldest)
        enough = len(self._at_s) >= max(QUORUM, QUORUM_SHARE * workers)
        return enough and worker not in self._at_s
