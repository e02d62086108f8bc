"""When a version of the model may be published: two must not differ by one erased person."""

from __future__ import annotations

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
    >>> rule.may_publish([], 10.0), rule.may_publish([first], 10.0)
    (True, False)
    >>> rule.may_publish([first, first], 10.0), rule.may_publish([first], 3600.0)
    (True, True)
    """

    batch: int
    deadline_s: float

    def may_publish(self, outstanding: Sequence[Outstanding], now_s: float) -> bool:
        """Return whether a version may be published now."""
        if not outstanding or self.batch == 1:
            return True
        if now_s - min(one.request.asked_s for one in outstanding) >= self.deadline_s:
            return True
        return len(outstanding) >= self.batch and all(one.settled for one in outstanding)
