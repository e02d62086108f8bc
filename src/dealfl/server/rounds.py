"""Rounds: whom to wake, when it is enough, what it earned, and what is published of it."""

from __future__ import annotations

from dataclasses import replace

from dealfl.messages import Assignment, Declined, Message, Published, Update
from dealfl.server.convergence import Convergence
from dealfl.server.folding import Books
from dealfl.server.ledger import Ledger
from dealfl.server.membership import Membership
from dealfl.server.predictions import Predictions
from dealfl.server.releases import Releases
from dealfl.server.rewards import reward
from dealfl.server.roster import candidates, declined, spent
from dealfl.server.selection import Selector
from dealfl.server.tables import RoundRow, WorkerRow
from dealfl.server.terms import Terms

__all__ = ["Rounds"]


class Rounds:
    """Opens and closes rounds; all that it remembers is in the ledger."""

    def __init__(
        self,
        job: str,
        ledger: Ledger,
        books: Books,
        members: Membership,
        terms: Terms,
        selector: Selector,
    ) -> None:
        self.terms = terms
        self.predictions = Predictions(books.total.name)
        self._job, self._ledger, self._books, self._members = job, ledger, books, members
        self._selector = selector
        self._releases = Releases(ledger, terms)
        self.load()

    def load(self) -> None:
        """Go on from the ledger."""
        self._selector.restore(self._ledger.setting("selector"))
        self.predictions.restore(self._ledger.setting("predictions"))
        quiet = int(self._ledger.setting("quiet", b"0"))
        self._convergence = Convergence(self.terms.tolerance, self.terms.patience, quiet)

    def save(self) -> None:
        """Write down what the selector has learned."""
        self._ledger.set_setting("selector", self._selector.state())

    @property
    def finished(self) -> bool:
        """Whether all rounds are done, or the model has converged."""
        done = self._ledger.last_round() >= self.terms.rounds and not self._ledger.open_round()
        return done or self._ledger.setting("converged") == b"yes"

    def gone(self, worker: str) -> None:
        """Expect nothing any more of a worker that was removed."""
        self._selector.gone(worker)

    # -- replies --------------------------------------------------------------------------------

    def replied(self, row: WorkerRow, message: Update, now_s: float) -> None:
        """Reward a reply to an assignment, once."""
        if message.round is None:
            return
        if not self._ledger.put_reply(message.round, row.name, now_s):
            return
        self.predictions.observed(row, message)
        self._ledger.set_setting("predictions", self.predictions.state())
        left = max(row.waiting - message.learned, 0)
        row = spent(row, message.energy_j, now_s)
        self._members.put(replace(row, training=False, waiting=left))
        earned = reward(
            self.terms.rewards,
            elapsed_s=now_s - self._ledger.opened_s(message.round),
            ttl_s=self.terms.ttl_s,
            learned=message.learned,
            energy_j=message.energy_j,
        )
        self._ledger.put_figures(message, earned)
        self._selector.earned(message.round, row.name, earned)

    def declined(self, row: WorkerRow, message: Declined, now_s: float) -> None:
        """Take note that a worker will not train in a round."""
        reason = message.reason or "no reason given"
        if self._ledger.put_reply(message.round, row.name, now_s, reason):
            self._members.put(declined(row))

    # -- moving on ------------------------------------------------------------------------------

    def advance(self, now_s: float) -> list[Message]:
        """Close the open round if it is over, and open the next."""
        open_round = self._ledger.open_round()
        replies: list[Message] = []
        if open_round is not None:
            if now_s < open_round.opened_s:  # the clock jumped back: the round lasts no longer
                open_round = RoundRow(open_round.number, now_s, now_s + self.terms.ttl_s)
                self._ledger.shift_round(open_round)
            reason = self._reason_to_close(open_round, now_s)
            if not reason:
                return []
            replies += self._close(open_round, reason, now_s)
        if not self.finished:
            replies += self._open(now_s)
        if self._ledger.open_round() is None and self._books.anything_ready(self._members.rows):
            replies += self._members.settle()  # late updates and erasures count between rounds, too
            digest = self._books.total.digest()
            replies += self._publish(self._ledger.last_round(), digest, now_s)
        return replies

    def _reason_to_close(self, row: RoundRow, now_s: float) -> str:
        selected, replied, declined = self._ledger.replies(row.number)
        if selected == declined:
            return "declined"
        if 2 * replied > selected - declined:
            return "majority"
        return "time to live" if now_s >= row.deadline_s else ""

    def _open(self, now_s: float) -> list[Message]:
        number, rows = self._ledger.last_round() + 1, self._members.rows
        able = candidates(rows, self.terms, now_s, self.predictions)
        enough = len(able) >= self.terms.least_workers
        chosen = self._selector.select(number, able, self.terms.selected) if enough else []
        if not chosen:
            return []
        deadline_s = now_s + self.terms.ttl_s
        self._ledger.put_round(RoundRow(number, now_s, deadline_s), chosen, able=len(able))
        for name in chosen:
            self.predictions.assigned(rows[name])
            self._members.put(replace(rows[name], training=True, busy_until_s=deadline_s))
        return [
            Assignment(job=self._job, worker=name, round=number, deadline_s=deadline_s)
            for name in chosen
        ]

    def _close(self, row: RoundRow, reason: str, now_s: float) -> list[Message]:
        before = self._books.total.statistics if self.terms.tolerance else None
        for name, replied_s in self._ledger.selected(row.number).items():
            if replied_s is None:  # it may have worked without a word: that costs charge, too
                silent = self._members.rows[name]
                self._members.put(spent(silent, self.predictions.energy_j(silent), now_s))
        replies = self._members.settle()
        digest = self._books.total.digest()
        self._ledger.close_round(row.number, now_s, reason, digest)
        change = self._books.total.change(before) if before is not None else 1.0
        if self._convergence.closed(change, majority=reason == "majority"):
            self._ledger.set_setting("converged", b"yes")
        self._ledger.set_setting("quiet", str(self._convergence.quiet).encode())
        return replies + self._publish(row.number, digest, now_s)

    def _publish(self, number: int, digest: str, now_s: float) -> list[Message]:
        """Publish, unless two versions would then differ by a few erased people only."""
        if not self._releases.may_publish(now_s):
            return []
        self._releases.published()
        version = self._ledger.put_version(number, digest)
        statistics = self._books.total.statistics.to_bytes()
        return [
            Published(
                job=self._job, worker="", version=version, digest=digest, statistics=statistics
            )
        ]
