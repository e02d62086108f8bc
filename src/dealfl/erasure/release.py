"""When a version of the model may be published: two must not differ by one erased person."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dealfl.erasure.requests import Outstanding

__all__ = ["ReleaseRule"]


@dataclass(frozen=True, slots=True)
class ReleaseRule:
    """Holds versions back while fewer than `batch` erasures are outstanding, up to a deadline.

    >>> from dealfl.erasure import Request
    >>> first = Outstanding(Request("r1", (b"hash",), asked_s=0.0), settled=True)
    >>> rule = ReleaseRule(batch=2, deadline_s=3600.0)
    >>> rule.release_at_s([first]), rule.release_at_s([first, first]), rule.release_at_s([])
    (3600.0, -inf, -inf)
    """

    batch: int
    deadline_s: float

    def release_at_s(self, outstanding: Sequence[Outstanding]) -> float:
        """Return from when on a version may be published; −∞ means at once."""
        enough = len(outstanding) >= self.batch and all(one.settled for one in outstanding)
        if not outstanding or self.batch == 1 or enough:
            return -math.inf
        return min(one.request.asked_s for one in outstanding) + self.deadline_s
