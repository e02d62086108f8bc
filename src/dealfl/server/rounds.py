"""Rounds: when they open and close, which workers are selected, and what they earn.

The figures in an update are claims. A delta shows how many examples it adds, less those that it
removes. Energy and time cannot be shown; they are compared with what a phone of this kind needs at
least.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from msgspec.structs import replace

from dealfl.protocol import Assignment, Declined, Message, Rules, Update
from dealfl.server.aggregation import Aggregation, Stored
from dealfl.server.ledger import Ledger
from dealfl.server.ledger_reader import OpenRound, WorkerRow
from dealfl.server.membership import Membership, is_member
from dealfl.server.predictions import Prediction, Predictions
from dealfl.server.publication import Publication
from dealfl.server.rewards import assign_fraction, compute_reward
from dealfl.server.roster import (
    correct_spending,
    find_call_size,
    find_rest_s,
    note_decline,
    note_doubt,
    note_reply,
    note_sleep,
    note_spending,
)
from dealfl.server.selection import OverPromise, Promising, Selector

_PAST_ROUNDS = 24  # whose unused places a worker that calls can still take
_REVIEW_EVERY = 100
_ANNOUNCED, _REPEATED = 2, 100  # announced examples for each that is learned
_FACTOR = 1000.0  # below what a device needs; claims above only cost the worker


class Rounds:
    """Opens and closes rounds under `rules`; the ledger holds all state that survives a restart."""

    def __init__(
        self,
        job: str,
        ledger: Ledger,
        aggregation: Aggregation,
        members: Membership,
        rules: Rules,
        selector: Selector,
    ) -> None:
        self.rules = rules
        self.draining = False  # opens no round and publishes no version
        self._called = False  # a worker called that may be worth a round at once
        self.predictions = Predictions(type(aggregation.total))
        self._job = job
        self._ledger = ledger
        self._aggregation = aggregation
        self._members = members
        self._selector = selector
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
        rounds = self._ledger.rounds
        done = rounds.last_number() >= self.rules.rounds and rounds.find_open() is None
        return done or self._ledger.state.converged

    @property
    def over_promised(self) -> OverPromise | None:
        """Workers whose fairness guarantees cannot be met; None if all can be met."""
        return self._selector.over_promised() if isinstance(self._selector, Promising) else None

    def wake_at_s(self, now_s: float) -> float | None:
        """Return the time of the next call if no message arrives."""
        open_round = self._ledger.rounds.find_open()
        if open_round is not None:
            held_until_s = self._aggregation.held_until_s
            return held_until_s if held_until_s > now_s else open_round.deadline_s
        if self.draining:
            return None
        is_regular, look_again_s = self.rules.round_every_s > 0, self._members.rows.look_again_s
        opening_s = self._next_opening_s() if is_regular else look_again_s
        times = (
            self.publication.due_at_s(self.rules, now_s),
            None if self.finished else opening_s,
        )
        return min((time_s for time_s in times if time_s is not None), default=None)

    def forget(self, worker: str) -> None:
        """Forget a removed worker."""
        self._selector.remove(worker)

    # -- replies --------------------------------------------------------------------------------

    def record_reply(self, row: WorkerRow, message: Update, stored: Stored, now_s: float) -> None:
        """Reward the first reply to an assignment; claims that do not fit earn nothing."""
        number = message.round
        trained = message.learned
        if number is None or message.epoch not in ("", self._members.epoch):
            return
        if not self._ledger.rounds.put_reply(number, row.name, now_s):
            return
        opened_s, announced, assumed_j, assigned = self._ledger.rounds.find_selection(number, row)
        share = float(assigned or self.rules.evicted_share)
        misfit = ""
        if row.devices is None:  # the devices behind a region were checked there
            misfit = _find_misfit(message, stored, self.predictions.predict_least(row), share)
        if misfit:
            row = replace(row, flag=misfit)
            message = _without_claims(message)
            earned = 0.0
            spent_j = self.predictions.predict_energy_j(row)
        else:
            self.predictions.observe(row, message)
            earned = compute_reward(
                self.rules.rewards,
                elapsed_s=now_s - max(opened_s, row.heard_s or opened_s),
                ttl_s=self.rules.ttl_s,
                learned=_credit(message, stored, row.examples, share),
                energy_j=message.energy_j or self.predictions.assume_energy_j(row, message),
            )
            spent_j = message.energy_j
        row = correct_spending(row, assumed_j, spent_j, now_s)
        if row.devices is None:
            row = note_doubt(row, bool(misfit) or _is_exaggerated(announced, message, stored))
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

    def awaits_call(self, row: WorkerRow, now_s: float) -> bool:
        """Return whether an assignment waits for a worker's call."""
        return row.training and row.busy_until_s > now_s + self.rules.ttl_s

    def send_to_sleep(self, worker: str, now_s: float) -> list[Message]:
        """Tell a worker that can sleep when to call, unless it trains or could be selected now."""
        row = self._members.rows[worker]
        if not is_member(row):
            return []  # it announces itself again
        if not row.sleeps or (row.training and not self.awaits_call(row, now_s)):
            return []
        waiting = find_call_size(row, self.rules, self.predictions)
        within_s = find_rest_s(row, self.rules, now_s)
        rides = row.rides and row.waiting >= self.rules.min_examples_per_update
        if row.waiting >= waiting or rides or not within_s:
            self._called = True
            return []
        self._members.put(note_sleep(row, waiting, within_s, now_s))
        return [self.rules.make_sleep(self._job, worker, waiting, within_s)]

    # -- opening and closing --------------------------------------------------------------------

    def advance(self, now_s: float) -> list[Message]:
        """Close the open round if it is over, and open the next."""
        open_round = self._ledger.rounds.find_open()
        replies: list[Message] = []
        if open_round is not None:
            if now_s < open_round.opened_s:  # the clock jumped back; the round must not last longer
                later_s = now_s + self.rules.ttl_s
                open_round = dataclasses.replace(open_round, opened_s=now_s, deadline_s=later_s)
                self._ledger.rounds.shift(open_round)
                for name in self._ledger.rounds.selected(open_round.number):
                    row = self._members.rows[name]
                    self._members.put(replace(row, busy_until_s=min(row.busy_until_s, later_s)))
            # what was assigned before a restore means nothing to workers; updates wait for the end
            is_old = self._ledger.state.round_epoch != self._members.epoch
            reason = "restored" if is_old else self._reason_to_close(open_round, now_s)
            if not reason or self._aggregation.holds(open_round.number, self._members.rows, now_s):
                return []
            replies += self._close(open_round, reason, now_s)
        if not self.finished and not self.draining:
            replies += self._open(now_s)
            opened = self._ledger.rounds.find_open()
            if opened is not None and self._reason_to_close(opened, now_s):
                replies += self._close(opened, "booked", now_s)
        if self._ledger.rounds.find_open() is None:
            replies += self._count_late_updates(now_s)
        return replies

    def publish_last(self, now_s: float) -> None:
        """Publish the last state of a job that has ended, where everybody who reads it is."""
        rules = replace(self.rules, release_batch=1)  # no version follows that shows who left
        if self.publication.lags(rules, now_s):
            self.publication.publish(self._ledger.rounds.last_number(), rules, now_s)
            self.publication.confirm_last()

    def _count_late_updates(self, now_s: float) -> list[Message]:
        """Count updates between rounds; they are published with the next round or when due."""
        replies = list[Message]()
        if self._aggregation.has_pending(now_s):
            replies += self._members.aggregate(self.rules, now_s)
        due_s = self.publication.due_at_s(self.rules, now_s)
        if due_s is not None and now_s >= due_s and not self.draining:
            replies += self.publication.publish(
                self._ledger.rounds.last_number(), self.rules, now_s
            )
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
        due = self._is_opening_due(now_s)
        count = self.rules.selected
        if self._called and not due:  # places that the last rounds have left
            window_s = _PAST_ROUNDS * self.rules.round_every_s
            used = self._ledger.rounds.count_selected_since(now_s - window_s)
            count = min(count, _PAST_ROUNDS * count - used)
            due = count > 0
        self._called = False
        if not due:
            return []
        if self.rules.round_every_s:
            self._ledger.change_state(next_opening_s=now_s + self.rules.round_every_s)
        number = self._ledger.rounds.last_number() + 1
        rows = self._members.rows
        eligible = rows.find_candidates(self.rules, now_s, self.predictions)
        enough = len(eligible) >= self.rules.min_workers
        chosen = self._selector.select(number, eligible, count) if enough else []
        if not chosen:
            return []
        self._review(number)
        deadline_s = now_s + self.rules.ttl_s
        waiting = {name: rows[name].waiting for name in chosen}
        self._ledger.rounds.open(number, now_s, deadline_s, waiting, len(eligible))
        self._ledger.change_state(round_epoch=self._members.epoch)
        for name in chosen:
            row = rows[name]
            self.predictions.expect(replace(row, waiting=max(row.waiting, row.call_waiting)))
            busy_until_s = max(deadline_s, rows[name].call_by_s + self.rules.ttl_s)
            self._members.put(replace(rows[name], training=True, busy_until_s=busy_until_s))
        called = [name for name in chosen if not rows[name].call_by_s]
        return self._assign(called, number, deadline_s, now_s)

    def _assign(
        self, workers: Iterable[str], number: int, deadline_s: float, now_s: float
    ) -> list[Message]:
        assignments: list[Message] = []
        for name in workers:
            fraction = assign_fraction(self.rules, self._members.rows[name])
            assignment = Assignment(
                job=self._job,
                worker=name,
                epoch=self._members.epoch,
                round=number,
                deadline_s=deadline_s,
                erased=self._ledger.erasures.end(),
                forget_fraction=self._ledger.rounds.put_fraction(number, name, fraction),
                others_alarmed=self._members.others_are_alarmed(name, now_s),
            )
            assignments.append(assignment)
        return assignments

    def repeat_assignment(self, worker: str, known: int, now_s: float) -> list[Message]:
        """Return the assignment of a worker that knows of earlier rounds only."""
        row = self._members.rows[worker]
        if self.draining or self.finished:  # a waiting assignment ends with the job
            return []
        number = self._ledger.rounds.find_unanswered(worker, known)
        if number is None or row.busy_until_s <= now_s:
            return []
        fewest = self.rules.min_examples_per_update
        waits = row.sleeps and row.waiting < fewest  # for its next call
        until_s = now_s + self.rules.ttl_s
        until_s = until_s + self.rules.max_wait_s if waits else min(row.busy_until_s, until_s)
        self._members.put(replace(row, busy_until_s=until_s))
        return [] if waits else self._assign([worker], number, until_s, now_s)

    def _next_opening_s(self) -> float | None:
        """Return the earliest time of the next round, which a restart does not change."""
        return self._ledger.state.next_opening_s if self.rules.round_every_s else None

    def _is_opening_due(self, now_s: float) -> bool:
        next_s = self._next_opening_s()
        # a time later than one period from now means that the clock jumped back
        return next_s is None or not now_s < next_s <= now_s + self.rules.round_every_s

    def _review(self, number: int) -> None:
        """Store from time to time whether fairness guarantees can be met."""
        if number % _REVIEW_EVERY == 0 or number.bit_count() == 1:
            self._ledger.change_state(over_promised=self.over_promised)

    def _close(self, row: OpenRound, reason: str, now_s: float) -> list[Message]:
        before = self._aggregation.total.statistics if self.rules.tolerance else None
        sleeping = self._sleepers(row.number)
        for name, replied_s in self._ledger.rounds.selected(row.number).items():
            if replied_s is None and name not in sleeping:
                silent = self._members.rows[name]  # it may have trained and spent energy
                energy_j = self.predictions.predict_energy_j(silent)
                self._members.put(note_spending(silent, energy_j, now_s))
                self._ledger.rounds.put_assumed(row.number, name, energy_j)
        replies = self._members.aggregate(self.rules, now_s)
        self._ledger.rounds.close(row.number, now_s, reason, self._aggregation.save_total())
        if reason == "majority":  # other rounds say nothing about convergence
            self._note_change(1.0 if before is None else self._aggregation.total.change(before))
        replies += self.publication.publish(row.number, self.rules, now_s)
        self._ledger.thin_if_due()
        return replies

    def _note_change(self, change: float) -> None:
        """Count consecutive rounds that hardly changed the model; enough of them end the job."""
        stable = self._ledger.state.stable_rounds + 1 if change < self.rules.tolerance else 0
        converged = stable >= self.rules.patience or self._ledger.state.converged
        self._ledger.change_state(stable_rounds=stable, converged=converged)


# -- claims ---------------------------------------------------------------------------------------


def _find_misfit(update: Update, stored: Stored, least: Prediction, evicted_share: float) -> str:
    """Return which claims do not fit; empty if all do."""
    net = update.learned - update.evicted
    if stored.records is not None and net != stored.records:
        return f"update claims {net:,} more examples; its delta has {stored.records:,}"
    if stored.examples is not None and not update.rebuilt:
        most = stored.examples if update.alarmed else _evictable(stored.examples, evicted_share)
        if update.evicted > most:
            return f"update claims {update.evicted:,} evicted examples; at most {most:,} can be"
    for unit, claimed, needed in (
        ("s", update.elapsed_s, least.elapsed_s),
        ("J", update.energy_j, least.energy_j),
    ):
        if 0.0 < claimed < needed / _FACTOR:
            return f"update claims {claimed:.3g} {unit}; its device needs {needed:.3g} {unit}"
    return ""


def _credit(update: Update, stored: Stored, examples: int, evicted_share: float) -> int:
    """Return how many examples count as learned for the reward.

    Evictions hide learned examples from the server. They are believed as far as the retention of
    the job explains them for a worker with this number of examples in the model.
    """
    if stored.is_zero or stored.records is None:
        return 0 if stored.is_zero else update.learned
    hidden = 0 if update.rebuilt else min(update.evicted, _evictable(examples, evicted_share))
    return max(stored.records + hidden, 0)


def _evictable(examples: int, evicted_share: float) -> int:
    """Return a generous limit of the evictions in one training."""
    return int(2.0 * evicted_share * max(examples, 0)) + 1


def _is_exaggerated(announced: int, update: Update, stored: Stored) -> bool:
    """Return whether a worker announced far more waiting examples than it learned."""
    # items of histories can be repeated; without an earlier update, nothing is certain
    allowed = _ANNOUNCED if stored.examples is not None else _REPEATED
    return announced > allowed * max(update.learned, 1)


def _without_claims(update: Update) -> Update:
    """Return an update whose figures are 0; only its delta counts."""
    return replace(
        update, learned=0, evicted=0, alarmed=False, operations=0, elapsed_s=0.0, energy_j=0.0
    )
