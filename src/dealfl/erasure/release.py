"""The rule that decides when a version of the model may be published after an erasure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dealfl.erasure.requests import Outstanding

__all__ = ["ReleaseRule"]


@dataclass(frozen=True, slots=True)
class ReleaseRule:
    """Hold versions back until enough erasures are settled, so that none reveals a single person.

    Parameters
    ----------
    batch : int
        Minimum number of outstanding erasures for a release; 1 releases at once.
    deadline_s : float
        Maximum time that an erasure holds versions back, in seconds.

    Examples
    --------
    >>> from dealfl.erasure import Request
    >>> first = Outstanding(Request("r1", (b"hash",), requested_s=0.0), settled=True)
    >>> rule = ReleaseRule(batch=2, deadline_s=3600.0)
    >>> rule.release_at_s([first]), rule.release_at_s([first, first]), rule.release_at_s([])
    (3600.0, -inf, -inf)
    """

    batch: int
    deadline_s: float

    def release_at_s(self, outstanding: Sequence[Outstanding]) -> float:
        """Return the time at which the next version may be published.

        Parameters
        ----------
        outstanding : sequence of Outstanding
            Requests that no published version reflects.

        Returns
        -------
        float
            Time in seconds of the server's clock; −∞ if a version may be published now.
        """
        enough = len(outstanding) >= self.batch and all(one.settled for one in outstanding)
        if not outstanding or self.batch == 1 or enough:
            return -math.inf
        return min(one.request.requested_s for one in outstanding) + self.deadline_s
