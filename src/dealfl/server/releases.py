"""When a version of the model may be shown: two must not differ by one erased person."""

from __future__ import annotations

from dealfl.server.ledger import Ledger
from dealfl.server.terms import Terms

__all__ = ["Releases"]


class Releases:
    """Holds versions back while a few erasures are pending, up to a deadline.

    An erasure is settled when every worker has answered and what it took back was counted. The
    next version shows it. It is pending until then.
    """

    def __init__(self, ledger: Ledger, terms: Terms) -> None:
        self._ledger, self._terms = ledger, terms

    def may_publish(self, now_s: float) -> bool:
        """Whether a version may be published now."""
        pending = self._ledger.unpublished_since_s()
        if not pending or self._terms.release_batch == 1:
            return True
        if now_s - pending[0] >= self._terms.release_deadline_s:
            return True
        return len(pending) >= self._terms.release_batch and not self._ledger.unsettled()

    def published(self) -> None:
        """Take note that everybody sees what is settled by now."""
        self._ledger.mark_erasures_published()
