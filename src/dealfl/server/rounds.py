"""Rounds: when they open and close, which workers are selected, and what they earn."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from dealfl.protocol import Announce, Assignment, Declined, Message, Sleep, Update
from dealfl.server.aggregation import Aggregation
from dealfl.server.claims import (
    Stored,
    credit,
    find_misfit,
    is_exaggerated,
    note_doubt,
    without_claims,
)
from dealfl.server.ledger import Ledger
from dealfl.server.membership import Membership
from dealfl.server.predictions import Predictions
from dealfl.server.publication import Publication
from dealfl.server.rewards import compute_reward
from dealfl.server.roster import (
    correct_spending,
    find_call_size,
    find_rest_s,
    note_decline,
    note_reply,
    note_sleep,
    note_spending,
)
from dealfl.server.selection import OverPromise, Promising, Selector
from dealfl.server.tables import OpenRound, WorkerRow
from dealfl.server.terms import Terms

__all__ = ["Rounds"]

_PAST_ROUNDS = 24  # whose unused places a worker that calls can still take
_REVIEW_EVERY = 100


class Rounds:
    """Opens and closes rounds under `terms`; the ledger holds all state that survives a restart."""

    def __init__(
        self,
        job: str,
        ledger: Ledger,
        aggregation: Aggregation,
        members: Membership,
        terms: Terms,
        selector: Selector,
    ) -> None:
        self.terms = terms
        self.draining = False  # opens no round and publishes no version
        self._called = False  # a worker called that may be worth a round at once
        self.predictions = Predictions(type(aggregation.total))
        self._job, self._ledger = job, ledger
        self._aggregation, self._members, self._selector = aggregation, members, selector
        self.publication = Publication(job, ledger, aggregation, members)
        self.load()

    def load(self) -> None:
        """Reload state from the ledger."""
        self.publication.load()
        self._selector.restore(self._ledger.list_parts("selector"))
        self.predictions.restore(self._ledger.list_parts("predictions"))

    def save(self) -> None:
        """Store what changed in the rows of workers, the selector and the predictions."""
        self._members.save()
        self._ledger.put_parts("selector", self._selector.changes())
        self._ledger.put_parts("predictions", self.predictions.changes())

    @property
    def finished(self) -> bool:
        """Whether all rounds are closed, or the model has converged."""
        done = self._ledger.last_round() >= self.terms.rounds and not self._ledger.open_round()
        return done or self._ledger.setting("converged") == b"yes"

    @property
    def over_promised(self) -> OverPromise | None:
        """Workers whose fairness guarantees cannot be met; None if all can be met."""
        return self._selector.over_promised() if isinstance(self._selector, Promising) else None

    def wake_at_s(self, now_s: float) -> float | None:
        """Return the time of the next call if no message arrives."""
        open_round = self._ledger.open_round()
        if open_round is not None or self.draining:
            return None if open_round is None else open_round.deadline_s
        opening_s = None if self.finished else self._next_opening_s()
        times = (self.publication.due_at_s(self.terms, now_s), opening_s)
        return min((time_s for time_s in times if time_s is not None), default=None)

    def forget(self, worker: str) -> None:
        """Forget a removed worker."""
        self._selector.remove(worker)

    # -- replies --------------------------------------------------------------------------------

    def record_reply(self, row: WorkerRow, message: Update, stored: Stored, now_s: float) -> None:
        """Reward the first reply to an assignment; claims that do not fit earn nothing."""
        number, trained = message.round, message.learned
        if number is None or message.epoch not in ("", self._members.epoch):
            return
        if not self._ledger.rounds.put_reply(number, row.name, now_s):
            return
        opened_s, announced, assumed_j, assigned = self._ledger.rounds.find_selection(number, row)
        share = float(assigned or self.terms.evicted_share)
        misfit = find_misfit(message, stored, self.predictions.predict_least(row), share)
        if misfit:
            row, message, earned = replace(row, flag=misfit), without_claims(message), 0.0
            spent_j = self.predictions.predict_energy_j(row)
        else:
            self.predictions.observe(row, message)
            earned = compute_reward(
                self.terms.rewards,
                elapsed_s=now_s - max(opened_s, row.heard_s or opened_s),
                ttl_s=self.terms.ttl_s,
                learned=credit(message, stored, row.examples, share),
                energy_j=message.energy_j or self.predictions.assume_energy_j(row, message),
            )
            spent_j = message.energy_j
        row = correct_spending(row, assumed_j, spent_j, now_s)
        row = note_doubt(row, bool(misfit) or is_exaggerated(announced, message, stored))
        self._members.put(note_reply(row, trained, message, now_s))
        self._ledger.rounds.put_figures(message, earned)
        self._selector.record_reward(number, row.name, earned)

    def record_decline(self, row: WorkerRow, message: Declined, now_s: float) -> None:
        """Store that a worker does not train in a round."""
        if message.epoch not in ("", self._members.epoch):
            return
        reason = message.reason or "no reason given"
        if self._ledger.rounds.put_reply(message.round, row.name, now_s, reason):
            self._members.put(note_decline(row))

    def is_booked(self, row: WorkerRow, now_s: float) -> bool:
        """Return whether an assignment waits for a worker's call."""
        return row.training and row.busy_until_s > now_s + self.terms.ttl_s

    def send_to_sleep(self, worker: str, now_s: float) -> list[Message]:
        """Tell a worker that can sleep when to call, unless it trains or could be selected now."""
        row = self._members.rows[worker]
        if not row.sleeps or (row.training and not self.is_booked(row, now_s)):
            return []
        least = self._selector.find_least_weight(worker)
        waiting = find_call_size(row, self.terms, self.predictions, least)
        within_s = find_rest_s(row, self.terms, now_s)
        if row.waiting >= waiting or not within_s:
            self._called = True
            return []
        self._members.put(note_sleep(row, waiting, within_s, now_s))
        return [Sleep(job=self._job, worker=worker, waiting=waiting, within_s=within_s)]

    # -- opening and closing --------------------------------------------------------------------

    def advance(self, now_s: float) -> list[Message]:
        """Close the open round if it is over, and open the next."""
        open_round = self._ledger.open_round()
        replies: list[Message] = []
        if open_round is not None:
            if now_s < open_round.opened_s:  # the clock jumped back; the round must not last longer
                later_s = now_s + self.terms.ttl_s
                open_round = dataclasses.replace(open_round, opened_s=now_s, deadline_s=later_s)
                self._ledger.rounds.shift(open_round)
            reason = self._reason_to_close(open_round, now_s)
            if not reason:
                return []
            replies += self._close(open_round, reason, now_s)
        if not self.finished and not self.draining:
            replies += self._open(now_s)
            opened = self._ledger.open_round()
            if opened is not None and self._reason_to_close(opened, now_s):
                replies += self._close(opened, "booked", now_s)
        if self._ledger.open_round() is None:
            replies += self._count_late_updates(now_s)
        return replies

    def _count_late_updates(self, now_s: float) -> list[Message]:
        """Count updates between rounds; they are published with the next round or when due."""
        replies = self._members.aggregate(self.terms) if self._aggregation.has_pending else []
        due_s = self.publication.due_at_s(self.terms, now_s)
        if due_s is not None and now_s >= due_s and not self.draining:
            replies += self.publication.publish(self._ledger.last_round(), self.terms, now_s)
        return replies

    def _reason_to_close(self, row: OpenRound, now_s: float) -> str:
        selected, replied, declined = self._ledger.rounds.count_replies(row.number)
        sleeping = len(self._sleepers(row.number))
        selected -= sleeping
        if sleeping and selected == 0:
            return "booked"
        if selected == declined:
            return "declined"
        if 2 * replied > selected - declined:
            return "majority"
        return "time to live" if now_s >= row.deadline_s else ""

    def _sleepers(self, number: int) -> set[str]:
        """Return the workers of a round that have not called yet; it does not wait for them."""
        replies = self._ledger.rounds.selected(number) if self._members.sleepers else {}
        return {name for name in replies.keys() & self._members.sleepers if replies[name] is None}

    def _open(self, now_s: float) -> list[Message]:
        due, count = self._is_opening_due(now_s), self.terms.selected
        if self._called and not due:  # places that the last rounds have left
            window_s = _PAST_ROUNDS * self.terms.round_every_s
            used = self._ledger.rounds.count_selected_since(now_s - window_s)
            count = min(count, _PAST_ROUNDS * count - used)
            due = count > 0
        self._called = False
        if not due:
            return []
        if self.terms.round_every_s:
            next_s = now_s + self.terms.round_every_s
            self._ledger.set_setting("next_opening_s", repr(next_s).encode())
        number, rows = self._ledger.last_round() + 1, self._members.rows
        eligible = rows.find_candidates(self.terms, now_s, self.predictions)
        enough = len(eligible) >= self.terms.min_workers
        chosen = self._selector.select(number, eligible, count) if enough else []
        if not chosen:
            return []
        self._review(number)
        deadline_s = now_s + self.terms.ttl_s
        waiting = {name: rows[name].waiting for name in chosen}
        self._ledger.rounds.open(number, now_s, deadline_s, waiting, len(eligible))
        for name in chosen:
            self.predictions.expect(rows[name])
            busy_until_s = max(deadline_s, rows[name].call_by_s + self.terms.ttl_s)
            self._members.put(replace(rows[name], training=True, busy_until_s=busy_until_s))
        called = [name for name in chosen if not rows[name].call_by_s]
        return self._assign(called, number, deadline_s)

    def _assign(self, workers: Iterable[str], number: int, deadline_s: float) -> list[Message]:
        erased, rounds, rows = self._ledger.erasures.end(), self._ledger.rounds, self._members.rows
        return [
            Assignment(
                job=self._job, worker=name, epoch=self._members.epoch, round=number,
                deadline_s=deadline_s, erased=erased, forget_fraction=rounds.put_fraction(
                    number, name, self.terms.assign_fraction(rows[name])
                ),
            )
            for name in workers
        ]  # fmt: skip

    def repeat_assignment(self, message: Announce, now_s: float) -> list[Message]:
        """Return the assignment of a worker that announces itself and does not know of it."""
        row = self._members.rows[message.worker]
        if self.draining or self.finished:  # a booking ends with the job
            return []
        number = self._ledger.rounds.find_unanswered(message.worker, message.round)
        if number is None or row.busy_until_s <= now_s:
            return []
        waits = row.sleeps and not row.waiting  # for its next call
        until_s = now_s + self.terms.ttl_s
        until_s = until_s + self.terms.max_wait_s if waits else min(row.busy_until_s, until_s)
        self._members.put(replace(row, busy_until_s=until_s))
        return [] if waits else self._assign([message.worker], number, until_s)

    def _next_opening_s(self) -> float | None:
        """Return the earliest time of the next round, which a restart does not change."""
        saved = self._ledger.setting("next_opening_s") if self.terms.round_every_s else b""
        return float(saved) if saved else None

    def _is_opening_due(self, now_s: float) -> bool:
        next_s = self._next_opening_s()
        # a time later than one period from now means that the clock jumped back
        return next_s is None or not now_s < next_s <= now_s + self.terms.round_every_s

    def _review(self, number: int) -> None:
        """Store from time to time whether fairness guarantees can be met."""
        if number % _REVIEW_EVERY == 0 or number.bit_count() == 1:
            found = self.over_promised
            self._ledger.set_setting("over_promised", msgspec.json.encode(found) if found else b"")

    def _close(self, row: OpenRound, reason: str, now_s: float) -> list[Message]:
        before = self._aggregation.total.statistics if self.terms.tolerance else None
        sleeping = self._sleepers(row.number)
        for name, replied_s in self._ledger.rounds.selected(row.number).items():
            if replied_s is None and name not in sleeping:
                silent = self._members.rows[name]  # it may have trained and spent energy
                energy_j = self.predictions.predict_energy_j(silent)
                self._members.put(note_spending(silent, energy_j, now_s))
                self._ledger.rounds.put_assumed(row.number, name, energy_j)
        replies = self._members.aggregate(self.terms)
        self._ledger.rounds.close(row.number, now_s, reason, self._aggregation.save_total())
        if reason == "majority":  # other rounds say nothing about convergence
            self._note_change(1.0 if before is None else self._aggregation.total.change(before))
        return replies + self.publication.publish(row.number, self.terms, now_s)

    def _note_change(self, change: float) -> None:
        """Count consecutive rounds that hardly changed the model; enough of them end the job."""
        quiet = int(self._ledger.setting("quiet", b"0")) + 1 if change < self.terms.tolerance else 0
        self._ledger.set_setting("quiet", str(quiet).encode())
        if quiet >= self.terms.patience:
            self._ledger.set_setting("converged", b"yes")
