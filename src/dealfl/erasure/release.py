"""The release of versions: none may differ from the one before by a single person."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Outstanding", "ReleaseRule"]


@dataclass(frozen=True, slots=True)
class Outstanding:
    """The persons who left the model since the last published version.

    Parameters
    ----------
    count : int
        Their number, by erasure or eviction.
    settled : bool
        Whether all requests of erasure are settled.
    since_s : float
        Time of the oldest request or, without one, of the last version; or of the last release by
        the deadline, if that is later.
    """

    count: int
    settled: bool
    since_s: float


@dataclass(frozen=True, slots=True)
class ReleaseRule:
    """Hold versions back until enough persons have left, so that none reveals a single person.

    Parameters
    ----------
    batch : int
        Minimum number of persons who left, for a release; 1 releases at once.
    deadline_s : float
        Maximum time that they hold versions back, in seconds. Then one version is released;
        the time starts again for what is still outstanding.

    Examples
    --------
    >>> rule = ReleaseRule(batch=2, deadline_s=3600.0)
    >>> rule.release_at_s(Outstanding(1, True, 0.0)), rule.release_at_s(Outstanding(2, True, 0.0))
    (3600.0, -inf)
    """

    batch: int
    deadline_s: float

    def release_at_s(self, outstanding: Outstanding) -> float:
        """Return the time at which the next version may be published.

        Parameters
        ----------
        outstanding : Outstanding
            Requests that no published version contains.

        Returns
        -------
        float
            Time in seconds of the server's clock; −∞ if a version may be published now.
        """
        enough = outstanding.count >= self.batch and outstanding.settled
        if not outstanding.count or self.batch == 1 or enough:
            return -math.inf
        return outstanding.since_s + self.deadline_s
