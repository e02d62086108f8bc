"""Publication: which states of the model are published, and when."""

from __future__ import annotations

from dealfl.erasure import Outstanding, ReleaseRule, is_settled
from dealfl.messages import Message, Published
from dealfl.server.aggregation import Aggregation
from dealfl.server.ledger import Ledger
from dealfl.server.membership import Membership
from dealfl.server.terms import Terms

__all__ = ["Publication"]


class Publication:
    """Publishes a version when a round closes, and late changes after `publish_every_s`.

    Every version is a download for its users, so an update between two rounds does not cause a
    version of its own.
    """

    def __init__(
        self, job: str, ledger: Ledger, aggregation: Aggregation, members: Membership
    ) -> None:
        self._job, self._ledger = job, ledger
        self._aggregation, self._members = aggregation, members
        self.load()

    def load(self) -> None:
        """Take no outstanding request for settled; a failed transaction may have undone it."""
        self._settled: set[str] = set()

    def publish(self, round_number: int, terms: Terms, now_s: float) -> list[Message]:
        """Publish a version, unless it would differ from the last one by too few erased people."""
        outstanding = self._outstanding()
        if now_s < _rule(terms).release_at_s(outstanding):
            return []
        self._ledger.erasures.mark_published(one.request.name for one in outstanding if one.settled)
        digest = self._aggregation.total.digest()
        version = self._ledger.erasures.put_version(round_number, digest, now_s)
        statistics = self._aggregation.total.statistics.to_bytes()
        return [
            Published(
                job=self._job, worker="", version=version, digest=digest, statistics=statistics
            )
        ]

    def due_at_s(self, terms: Terms, now_s: float) -> float | None:
        """Return when the current state must be published if no round closes before."""
        last, outstanding = self._ledger.reader.last_version(), self._outstanding()
        if last is None:
            return None
        changed = last.digest != self._aggregation.total.digest()
        if not changed and not any(one.settled for one in outstanding):
            return None
        jumped_back = now_s < last.published_s  # the elapsed time is unknown then
        late_s = now_s if jumped_back else last.published_s + terms.publish_every_s
        return max(late_s, _rule(terms).release_at_s(outstanding))

    def _outstanding(self) -> list[Outstanding]:
        reader, rows = self._ledger.reader, self._members.rows
        outstanding = [
            Outstanding(request, is_settled(reader.answers(request.name), rows))
            for request in reader.outstanding_erasures()
        ]
        settled = {one.request.name for one in outstanding if one.settled}
        if not settled <= self._settled:  # the ledger needs nothing of these people any more
            self._ledger.note_deletion(compact=True)
        self._settled = settled
        return outstanding


def _rule(terms: Terms) -> ReleaseRule:
    return ReleaseRule(terms.release_batch, terms.release_deadline_s)
