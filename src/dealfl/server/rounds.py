"""Rounds: whom to wake, when it is enough, what it earned, and what is published of it."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from dealfl.messages import Assignment, Declined, Message, Published, Update
from dealfl.server.aggregation import Books
from dealfl.server.cadence import Cadence
from dealfl.server.convergence import Convergence
from dealfl.server.ledger import Ledger
from dealfl.server.membership import Membership
from dealfl.server.predictions import Predictions
from dealfl.server.releases import Releases
from dealfl.server.rewards import reward
from dealfl.server.roster import candidates, corrected, declined, replied, spent
from dealfl.server.selection import OverPromise, Promising, Selector
from dealfl.server.tables import RoundRow, WorkerRow
from dealfl.server.terms import Terms

__all__ = ["Rounds"]

_REVIEW_EVERY = 100


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
        self._cadence = Cadence(ledger, terms.round_every_s)
        self.load()

    def load(self) -> None:
        """Go on from the ledger."""
        self._saved = self._ledger.setting("selector")
        self._selector.restore(self._saved)
        self.predictions.restore(self._ledger.setting("predictions"))
        quiet = int(self._ledger.setting("quiet", b"0"))
        self._convergence = Convergence(self.terms.tolerance, self.terms.patience, quiet)

    def save(self) -> None:
        """Write down what the selector has learned, if it has: of many workers that is much."""
        state = self._selector.state()
        if state is not self._saved:
            self._ledger.set_setting("selector", state)
            self._saved = state

    @property
    def finished(self) -> bool:
        """Whether all rounds are done, or the model has converged."""
        done = self._ledger.last_round() >= self.terms.rounds and not self._ledger.open_round()
        return done or self._ledger.setting("converged") == b"yes"

    @property
    def over_promised(self) -> OverPromise | None:
        """The workers that were promised more rounds than they can get, if any were."""
        found = self._selector
        return found.over_promised() if isinstance(found, Promising) else None

    def wake_at_s(self) -> float | None:
        """Return when there is something to do though nobody says a word."""
        open_round = self._ledger.open_round()
        if open_round is not None:
            return open_round.deadline_s
        return None if self.finished else self._cadence.next_s

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
        assumed_j = self._ledger.assumed_j(message.round, row.name, row.spent_since_s)
        row = corrected(row, assumed_j, message.energy_j, now_s)
        self._members.put(replied(row, message.learned, now_s))
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
        if not self._cadence.due(now_s):
            return []
        number, rows = self._ledger.last_round() + 1, self._members.rows
        able = candidates(rows, self.terms, now_s, self.predictions)
        enough = len(able) >= self.terms.least_workers
        chosen = self._selector.select(number, able, self.terms.selected) if enough else []
        if not chosen:
            return []
        self._review(number)
        deadline_s = now_s + self.terms.ttl_s
        self._ledger.put_round(RoundRow(number, now_s, deadline_s), chosen, able=len(able))
        for name in chosen:
            self.predictions.assigned(rows[name])
            self._members.put(replace(rows[name], training=True, busy_until_s=deadline_s))
        return [
            Assignment(job=self._job, worker=name, round=number, deadline_s=deadline_s)
            for name in chosen
        ]

    def _review(self, number: int) -> None:
        """Write down now and then whether promises can be kept, for those who read the ledger."""
        if isinstance(self._selector, Promising) and (
            number % _REVIEW_EVERY == 0 or number.bit_count() == 1
        ):
            found = self._selector.over_promised()
            content = b"" if found is None else msgspec.json.encode(found)
            self._ledger.set_setting("over_promised", content)

    def _close(self, row: RoundRow, reason: str, now_s: float) -> list[Message]:
        before = self._books.total.statistics if self.terms.tolerance else None
        for name, replied_s in self._ledger.selected(row.number).items():
            if replied_s is None:  # it may have worked without a word: that costs charge, too
                silent = self._members.rows[name]
                energy_j = self.predictions.energy_j(silent)
                self._members.put(spent(silent, energy_j, now_s))
                self._ledger.put_assumed(row.number, name, energy_j)
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
