"""Aggregation under masks: the server adds masked updates, and a keyholder opens sums of cohorts.

An update counts when the sum of its cohort is opened. Always, modulo 2^bits of each array,

    total = base + Σ masked sums − Σ opened masks − residue

where the residue is what was opened and is impossible: it leaves with the next opening. A worker
that begins a new incarnation leaves its masked sum behind until an opening subtracts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dealfl.errors import BadBytes, BadInput, Impossible
from dealfl.learners import Learner
from dealfl.masks import Answer, Asker, Ring, Total, hash_request, header_of
from dealfl.protocol import (
    MAX_HEADERS,
    Header,
    MaskedUpdate,
    Message,
    Open,
    Opened,
    Ready,
    Rules,
    Update,
    Withdraw,
)
from dealfl.server.aggregation import (
    AFTER_GAP,
    Aggregated,
    Aggregation,
    Problem,
    Stored,
    without_open_withdrawals,
)
from dealfl.server.ledger import Ledger, Pending
from dealfl.server.ledger_reader import WorkerRow
from dealfl.server.mask_store import LEAVES, MASKS, RESIDUE, STAYS, MaskedSum, MaskStore
from dealfl.server.sums import BASE

_HASH_BYTES = 32
_REPEAT_S = 30.0  # after which a request without an answer is sent again
_MAX_REPEAT_S = 600.0
_PATIENCE_S = 10.0  # for which a round waits for an answer
_NOT_MASKED = "update is not masked; this job accepts updates under masks only"
_SUSPECT = "suspect: the total of a cohort with this worker is impossible"
_BARRED = "barred: its updates make the total impossible"
_REMEDY = "; `dealfl workers remove` lets it begin again"
_MANY_UPDATES = 60_000  # of an incarnation: one request must still be able to take its sum out


@dataclass(frozen=True, slots=True)
class Privacy:
    """What a server needs to keep sums under masks."""

    asker: Asker
    job: str
    name: str = "keyholder"  # under which the keyholder is reached
    cohort: int = 5  # workers with fresh examples in an opening
    max_workers: int = 10_000  # whose sums must fit the integers
    bits: int | None = None  # that every sum fits; None: those of the arrays

    def require_room(self, learner: Learner, rules: Rules) -> Ring:
        """Refuse a job whose statistics are too large, or whose sums could wrap around."""
        ring = Ring(learner.schema)
        ring.require_small()
        entry = learner.max_entry
        if entry is None:
            raise BadInput(
                f"learner {learner.name} does not state the largest integer that one example adds "
                "(`max_entry`), so that masked sums could overflow; remove the section [privacy]"
            )
        most = self.max_workers * rules.max_examples * entry
        for spec in learner.schema.arrays:
            if most >= 1 << (spec.bits - 1):
                raise BadInput(
                    f"{self.max_workers:,} workers × max_examples = {rules.max_examples:,} × "
                    f"{entry:,} do not fit the {spec.bits} bits of array {spec.name!r}, and a "
                    "masked sum would wrap around; lower max_examples, or privacy.max_workers"
                )
        return ring


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A worker's updates that can be opened: their headers, and the last sequence that counts."""

    row: WorkerRow
    updates: list[Pending]
    headers: list[Header]
    clean_from: float  # before this update, the sum may have people whose leaving was shown

    @property
    def is_fresh(self) -> bool:
        return bool(self.headers) and self.headers[-1].fresh >= 1

    def up_to_fresh(self, most: int = MAX_HEADERS) -> _Candidate:
        """Return the longest part, of at most `most` headers, whose last update is fresh."""
        for header in reversed(self.headers[:most]):
            if header.fresh >= 1 and header.sequence >= self.clean_from:
                part = [update for update in self.updates if update.sequence <= header.sequence]
                if without_open_withdrawals(part) == part:
                    headers = [one for one in self.headers if one.sequence <= header.sequence]
                    return _Candidate(self.row, part, headers, self.clean_from)
        return _Candidate(self.row, [], [], self.clean_from)


class MaskedAggregation(Aggregation):
    """Store masked updates, ask the keyholder for sums of masks, and add what was opened."""

    def __init__(
        self, ledger: Ledger, make: Callable[[], Learner], privacy: Privacy | None
    ) -> None:
        super().__init__(ledger, make)
        self._privacy = privacy  # None: only `rebuild`
        self._masks = MaskStore(ledger)
        bits = self._masks.state.bits if privacy is None else privacy.bits
        self._ring = Ring(self._schema, bits)
        self._is_changed = True  # something since the last attempt to make a request
        self._cohort = privacy.cohort if privacy is not None else 0  # or the keyholder's
        self._tried_alone = False  # since fewer workers will do

    def load(self) -> None:
        """Reload the total from the ledger."""
        self._ready = set(self._ledger.updates.waiting())
        self._is_changed = True
        self._ledger.sums.reset_marks()
        total = self._make()
        if (saved := self._ledger.reader.total()) is not None:
            total.merge(saved)
        self.total = total

    def verify(self) -> None:
        """Raise an error if the total is not that of the masked sums and the opened masks."""
        if self._ring.statistics(self._add_up()) != self.total.statistics:
            raise BadBytes(
                f"ledger {self._ledger.path}: the total is not the difference of its masked sums "
                "and opened masks; compute it again by `dealfl restore LEDGER --to RUN --force`, "
                "or restore a backup"
            )

    def _add_up(self) -> bytes:
        total = Total(self._ring)
        total.add(self._ring.vector(self._ledger.sums.read(BASE, self._schema)))
        for masked in self._masks.sums():
            if masked.vector is not None:
                total.add(masked.vector)
        for name in (MASKS, RESIDUE):
            if (vector := self._masks.vector(name)) is not None:
                total.subtract(vector)
        return total.vector()

    def rebuild(self) -> None:
        """Compute the total again from masked sums and opened masks."""
        self.total = self._make()
        self.total.merge(self._ring.statistics(self._add_up()))
        self._ledger.sums.replace_total(self.total.statistics)
        self._put_total()

    # -- epochs and keys -------------------------------------------------------------------------

    def restart_if_stale(self) -> bool:
        """Begin with nothing if the epoch or the keyholder's key is new; return whether it is."""
        assert self._privacy is not None
        state = self._masks.state
        key_name = self._privacy.asker.key_name
        now = (key_name, self._ledger.state.epoch, self._privacy.bits)
        is_stale = (state.keyholder, state.epoch, state.bits) != now
        if is_stale:
            self._ledger.updates.drop_all()
            self._masks.clear()
            base = self._ledger.sums.read(BASE, self._schema)
            self.total = self._make()
            self.total.merge(base)
            self._ledger.sums.replace_total(base)
            self._put_total()
            self._ready = set()
        self._masks.change(
            keyholder=key_name,
            epoch=self._ledger.state.epoch,
            bits=self._privacy.bits,
            name=self._privacy.name,
            cohort=self._privacy.cohort,
            repeat_at_s=-math.inf,  # a process that was killed may not have sent it
        )
        return is_stale and bool(state.keyholder)

    # -- updates ---------------------------------------------------------------------------------

    def _store(self, row: WorkerRow, message: Update) -> Stored | Problem:
        problem = self._find_problem(message)
        if problem is not None:
            return problem
        if self._find_place(row, message.sequence) is None:
            return AFTER_GAP
        assert isinstance(message, MaskedUpdate)
        self._ledger.updates.put(message)
        self._masks.put_header(header_of(message))
        self._ready.add(row.name)
        self._is_changed = True
        return Stored(None, None, is_zero=False)

    def _find_problem(self, message: Update) -> Problem | None:
        state = self._masks.state
        if not isinstance(message, MaskedUpdate):
            return Problem(_NOT_MASKED)
        if message.keyholder != state.keyholder:
            return Problem(
                f"update is masked for the keyholder's key {message.keyholder}; this server has "
                f"{state.keyholder}: enrol the worker again"
            )
        if message.epoch != state.epoch:
            return Problem("update is masked for another epoch", fatal=True)
        if len(message.delta) != self._ring.packed_bytes:
            return Problem(
                f"masked update has {len(message.delta):,} bytes, expected "
                f"{self._ring.packed_bytes:,}; server and worker need the same job file"
            )
        if (len(message.nonce), len(message.seal)) != (_HASH_BYTES, _HASH_BYTES):
            return Problem("bytes that are not a masked update of this job", fatal=True)
        return None

    def list_unopened(self, workers: Mapping[str, WorkerRow]) -> list[tuple[Header, bytes]]:
        """Return the header and the masked bytes of every update that is not opened."""
        rows = [workers[name] for name in self._ledger.updates.waiting()]
        return [
            (
                self._masks.find_header(row.name, row.incarnation, update.sequence),
                self._ledger.updates.read_delta(row, update.sequence),
            )
            for row in rows
            for update in self._ledger.updates.pending(row)
            if not update.withdrawn
        ]

    def leave(self, row: WorkerRow) -> None:
        """Let the sum of a worker leave with the next opening, and delete its other updates."""
        state = self._masks.state
        asked_in = state.counts.get(row.name, (0, 0))[0] if state.request else 0
        sums = {masked.incarnation: masked for masked in self._find_live(row.name)}
        for incarnation in sums.keys() | ({asked_in} if asked_in else set()):
            empty = MaskedSum(row.name, incarnation, STAYS, 0, None, None)
            masked = self._masks.find(row.name, incarnation) or empty
            if masked.leaving == STAYS:
                asked = self._sum_asked(row.name, incarnation) if incarnation == asked_in else None
                self._masks.put(
                    masked._replace(leaving=LEAVES, forgotten=row.forgotten, requested=asked)
                )
        self._masks.drop_unopened(row.name)
        self._ledger.updates.drop(row.name)
        self._is_changed = True

    def _find_live(self, worker: str) -> list[MaskedSum]:
        return [masked for masked in self._masks.of(worker) if masked.leaving == STAYS]

    def withdraw(self, row: WorkerRow, message: Withdraw) -> bool | Problem:
        """Withdraw an update unless it is stored; return whether it never counts."""
        self._is_changed = True
        return super().withdraw(row, message)

    def forgive(self, worker: str) -> None:
        """Let a worker that was barred begin again."""
        state = self._masks.state
        self._masks.change(
            barred=tuple(name for name in state.barred if name != worker),
            suspects=tuple(name for name in state.suspects if name != worker),
        )

    @property
    def max_workers(self) -> float:
        """Number of workers whose sums cannot wrap around."""
        return math.inf if self._privacy is None else self._privacy.max_workers

    @property
    def forgotten_limit(self) -> float:
        """Number of erasure requests that nothing in the total contains, by sums that leave."""
        leaving = self._masks.min_forgotten()
        limits = [limit for limit in (leaving, self._masks.state.forgotten) if limit is not None]
        return min(limits, default=math.inf)

    def look_again(self, worker: str) -> None:  # noqa: ARG002
        """Try to make a request: updates that were held may be opened now."""
        self._is_changed = True

    def find_leaving(self, worker: str) -> int | None:
        """Return the first incarnation whose sum leaves; None if it waits for no opening."""
        return self._masks.find_leaving(worker)

    # -- requests --------------------------------------------------------------------------------

    def has_pending(self, now_s: float) -> bool:
        """Return whether `aggregate` may make a request."""
        is_due = now_s >= self._masks.state.alone_at_s and not self._tried_alone
        return (self._is_changed or is_due) and self._masks.state.request is None

    def aggregate(
        self,
        workers: Mapping[str, WorkerRow],
        rules: Rules,  # noqa: ARG002
        now_s: float,
    ) -> Aggregated:
        """Ask the keyholder to open what can be opened; it counts when the answer comes."""
        if self.has_pending(now_s):
            self._ask(workers, now_s)
        return Aggregated({}, {}, {})

    def holds(self, number: int, workers: Mapping[str, WorkerRow], now_s: float) -> bool:
        """Return whether a round waits for an opening; it does once, and not for long."""
        held = self._masks.state.held
        if held is None or held[0] != number:
            if self.has_pending(now_s):
                self._ask(workers, now_s)
            held = (number, now_s + _PATIENCE_S)
            self._masks.change(held=held)
        waits = held[1] - _PATIENCE_S <= now_s < held[1]
        return self._masks.state.request is not None and waits

    @property
    def held_until_s(self) -> float:
        """Until when a round waits for an answer."""
        state = self._masks.state
        return state.held[1] if state.held and state.request else -math.inf

    def take_requests(self, now_s: float) -> list[Message]:
        """Return the request without an answer, if it is time to send it."""
        state = self._masks.state
        request = state.request
        if request is None or state.repeat_at_s - state.repeat_s <= now_s < state.repeat_at_s:
            return []
        repeat_s = min(2.0 * state.repeat_s, _MAX_REPEAT_S) if state.repeat_s else _REPEAT_S
        self._masks.change(
            repeat_s=repeat_s,
            repeat_at_s=now_s + repeat_s,
            asked_s=now_s if state.asked_s is None else state.asked_s,
        )
        return [request]

    def wake_at_s(self, now_s: float) -> float:
        """Return when the request is repeated, or when fewer workers will do."""
        if self._masks.state.request is not None:
            return max(self._masks.state.repeat_at_s, now_s)
        is_ahead = self._ready and now_s < self._masks.state.alone_at_s
        return self._masks.state.alone_at_s if is_ahead else math.inf

    def _wait_alone(self, until_s: float) -> None:
        self._masks.change(alone_at_s=until_s)
        self._tried_alone = False

    def _wait_alone_from(self, opened_s: float) -> None:
        self._wait_alone(opened_s + (self._masks.state.alone_after_s or math.inf))

    def _ask(self, workers: Mapping[str, WorkerRow], now_s: float) -> None:
        """Make a request, if enough workers have fresh examples."""
        assert self._privacy is not None
        self._is_changed = False
        self._tried_alone = now_s >= self._masks.state.alone_at_s
        candidates = self._choose(workers, now_s)
        if not candidates:
            return
        state = self._masks.state
        minus, left = self._choose_leaving()
        plus = [header for candidate in candidates for header in candidate.headers]
        request = Open(
            job=self._privacy.job,
            worker=self._privacy.name,
            epoch=state.epoch,
            number=state.number + 1,
            cohort=self._cohort if now_s < self._masks.state.alone_at_s else 1,
            schema=self._schema.canonical(),
            plus=tuple(plus),
            minus=tuple(minus),
        )
        self._masks.mark_headers(plus, request.number)
        for masked in left:
            self._masks.let_leave(masked, request.number)
        self._masks.change(
            request=self._privacy.asker.seal(request),
            asked_s=None,
            counts={
                candidate.row.name: (candidate.row.incarnation, candidate.updates[-1].sequence)
                for candidate in candidates
            },
            repeat_at_s=-math.inf,
            repeat_s=0.0,
        )

    def _choose_leaving(self) -> tuple[list[Header], list[MaskedSum]]:
        """Return sums that leave, and their headers: as many as one request may contain."""
        headers, left = list[Header](), list[MaskedSum]()
        for masked in self._masks.leaving(LEAVES):
            own = self._masks.opened_headers(masked.worker, masked.incarnation)
            if len(headers) + len(own) <= MAX_HEADERS:
                headers += own
                left.append(masked)
        return headers, left

    def _choose(self, workers: Mapping[str, WorkerRow], now_s: float) -> list[_Candidate]:
        """Return what to open: enough workers with fresh examples, and at most one suspect."""
        assert self._privacy is not None
        cohort = self._cohort if now_s < self._masks.state.alone_at_s else 1
        shown = self._ledger.reader.count_shown()
        found = [self._find_candidate(workers[name], shown) for name in sorted(self._ready)]
        chosen = self._without_suspects([one for one in found if one is not None], workers, cohort)
        if sum(one.is_fresh for one in chosen) < cohort:
            shorter = [one if one.is_fresh else one.up_to_fresh() for one in chosen]
            fresh = [one for one in shorter if one.is_fresh]
            if len(fresh) < cohort:
                return []
            kept = [one for one, short in zip(chosen, shorter, strict=True) if not short.headers]
            chosen = sorted([*fresh, *kept], key=lambda one: one.row.name)
        return _within(chosen, MAX_HEADERS, cohort)

    def _find_candidate(self, row: WorkerRow, shown: int) -> _Candidate | None:
        updates = without_open_withdrawals(list(self._ledger.updates.pending(row)))
        if not updates or row.name in self._masks.state.barred:
            return None
        clean_from = self._clean_from(row, shown)
        if updates[-1].sequence < clean_from:
            return None
        find = self._masks.find_header
        headers = [
            find(row.name, row.incarnation, update.sequence)
            for update in updates
            if not update.withdrawn
        ]
        return _Candidate(row, updates, headers, clean_from)

    def _without_suspects(
        self, candidates: list[_Candidate], workers: Mapping[str, WorkerRow], cohort: int
    ) -> list[_Candidate]:
        """Return candidates with at most one suspect.

        If too few workers are above suspicion, a group of suspects is tried: one that passes is.
        """
        state = self._masks.state
        if not state.suspects:
            return candidates
        under = {*state.suspects, *state.barred}
        clear = [one for one in candidates if one.row.name not in under]
        by_name = {one.row.name: one for one in candidates}
        tried = [by_name[name] for name in state.suspects if name in by_name]
        others = sum(row.heard_s is not None and row.name not in under for row in workers.values())
        count = 1 if others >= cohort else max(cohort - others, 1)
        tried.sort(key=lambda one: not one.is_fresh)  # stable: the longest untried first
        return clear + tried[:count]

    # -- answers ---------------------------------------------------------------------------------

    def receive_ready(self, message: Ready, now_s: float) -> None:
        """Note what the keyholder says of itself, and repeat an open request."""
        assert self._privacy is not None
        state = self._masks.state
        if message.worker != self._privacy.name or not self._privacy.asker.accepts(message):
            problem = (
                f"keyholder {message.worker} has the key {message.keyholder}; this server is "
                f"enrolled with {state.keyholder}"
            )
            if message.keyholder != state.keyholder:
                self._masks.change(problem=problem)
            return
        self._is_changed = True
        self._cohort = max(message.cohort, self._privacy.cohort)
        self._masks.change(alone_after_s=message.alone_after_s)
        self._wait_alone_from(now_s if state.opened_s is None else state.opened_s)
        few = message.enrolled < self._cohort
        self._masks.change(
            repeat_at_s=-math.inf,
            problem=f"the keyholder has enrolled {message.enrolled} workers; an opening needs "
            f"{self._cohort}"
            if few
            else "",
        )

    def receive_answer(
        self, message: Opened, workers: Mapping[str, WorkerRow], rules: Rules, now_s: float
    ) -> Aggregated | None:
        """Apply an answer of the keyholder; None if it is none to the open request."""
        assert self._privacy is not None
        request = self._masks.state.request
        if request is None or message.request != hash_request(request):
            return None
        answer = self._privacy.asker.read(message)
        if answer is None:
            return None
        if answer.refused:
            return self._dissolve(request, answer, now_s)
        if len(answer.masks) != self._ring.size_bytes:
            self._masks.change(
                problem=f"the keyholder has answered {len(answer.masks):,} bytes of masks; "
                f"{self._ring.size_bytes:,} were expected"
            )
            return None
        return self._open(request, answer, workers, rules, now_s)

    def _dissolve(self, request: Open, answer: Answer, now_s: float) -> Aggregated:
        """Take back a request that was refused; nothing of it was opened."""
        if answer.code == "keyholder":  # it lost openings: only a new key can help
            self._masks.change(problem=answer.refused)
            return Aggregated({}, {}, {})
        if answer.retry_s is not None and answer.retry_s >= 0.0:
            self._wait_alone(now_s + answer.retry_s)
        elif answer.code == "cohort":
            self._wait_alone(math.inf)
        self._masks.mark_headers(request.plus, 0)
        self._masks.keep_leaving(request.number)
        for masked in self._masks.leaving(LEAVES):
            if masked.requested is not None:
                self._masks.put(masked._replace(requested=None))
        self._masks.drop_empty()
        self._masks.change(request=None, counts={}, problem=answer.refused)
        self._is_changed = answer.code == "headers"
        done = Aggregated({}, {}, {}, is_older=answer.code == "ledger")
        for bad in answer.bad:
            done.diverged[bad.worker] = f"refused by the keyholder: {bad.reason}"
            done.above[bad.worker] = bad.above
        return done

    def _open(
        self,
        request: Open,
        answer: Answer,
        workers: Mapping[str, WorkerRow],
        rules: Rules,
        now_s: float,
    ) -> Aggregated:
        """Add what was opened to the total, or to the residue if that is impossible."""
        state = self._masks.state
        change = Total(self._ring)
        for vector in self._fold(request):
            change.add(vector)
        self._masks.drop_empty()
        left = self._masks.leaving(request.number)
        for masked in left:
            assert masked.vector is not None, "what leaves was opened"
            change.subtract(masked.vector)
            self._masks.drop(masked.worker, masked.incarnation)
        change.subtract(answer.masks)
        if (residue := self._masks.vector(RESIDUE)) is not None:
            change.add(residue)
        masks = Total(self._ring).add(answer.masks)
        masks.add(self._masks.vector(MASKS) or self._ring.zero)
        self._masks.put_vector(MASKS, masks.vector())
        self._masks.change(
            number=request.number,
            request=None,
            counts={},
            opened_s=now_s,
            smallest=min(state.smallest or answer.workers, answer.workers),
            problem="",
        )
        self._is_changed = True
        self._wait_alone_from(now_s)
        self._ready = set(self._ledger.updates.waiting())
        counts = {
            name: place
            for name, place in state.counts.items()
            if workers[name].incarnation == place[0]
        }
        problem = self._try_total(change.vector(), rules)
        if problem:
            return self._suspect(counts, change.vector(), left, problem)
        self._masks.put_vector(RESIDUE, None)
        cleared = tuple(name for name in state.suspects if name not in counts)
        self._masks.change(suspects=cleared, forgotten=None)
        for name, (incarnation, last) in counts.items():
            self._ledger.updates.delete_deltas(name, incarnation, last)
        self._ready = set(self._ledger.updates.waiting())
        counted = {name: last for name, (_, last) in counts.items() if last < _MANY_UPDATES}
        full = f"began again after {_MANY_UPDATES:,} updates"
        return Aggregated(counted, dict.fromkeys(counts.keys() - counted.keys(), full), {})

    def _fold(self, request: Open) -> list[bytes]:
        """Add the updates of a request to the masked sums of their workers; return them."""
        added = []
        for name, incarnation in dict.fromkeys((h.worker, h.incarnation) for h in request.plus):
            masked = self._masks.find(name, incarnation)
            if masked is None:
                masked = MaskedSum(name, incarnation, STAYS, 0, None, None)
            vector = masked.requested or self._sum_asked(name, incarnation)
            whole = Total(self._ring).add(vector)
            if masked.vector is not None:
                whole.add(masked.vector)
            self._masks.put(masked._replace(vector=whole.vector(), requested=None))
            added.append(vector)
        return added

    def _sum_asked(self, worker: str, incarnation: int) -> bytes:
        """Return the sum of the masked updates of a worker that the open request contains."""
        request = self._masks.state.request
        assert request is not None
        row = WorkerRow(worker, incarnation)
        total = Total(self._ring)
        for header in request.plus:
            if (header.worker, header.incarnation) == (worker, incarnation):
                packed = self._ledger.updates.read_delta(row, header.sequence)
                total.add(self._ring.unpack(packed))
        return total.vector()

    def _try_total(self, change: bytes, rules: Rules) -> str:
        """Add a change to the total if the result is possible; else return why it is not."""
        delta = self._ring.statistics(change)
        try:
            whole = self.total.statistics + delta
            self._scratch.check_statistics(whole)
            self._require_examples(whole, rules)
            self._add(delta)
        except (ValueError, ArithmeticError) as error:
            return type(error).__name__
        self._put_total()
        return ""

    def _require_examples(self, whole: object, rules: Rules) -> None:
        """Refuse a total of more examples than all workers may have."""
        assert self._privacy is not None
        count = self.total.count_records(whole) or 0  # type: ignore[arg-type]
        limit = self._privacy.max_workers * rules.max_examples
        if count > limit:
            raise Impossible(f"the total has {count:,} examples; at most {limit:,} can be")

    def _suspect(
        self,
        counts: Mapping[str, tuple[int, int]],
        residue: bytes,
        left: Iterable[MaskedSum],
        problem: str,
    ) -> Aggregated:
        """Let a cohort with an impossible total leave; name its liar if it had one suspect."""
        state = self._masks.state
        tried = [name for name in state.suspects if name in counts]
        rest = tuple(name for name in state.suspects if name not in counts)
        barred = state.barred
        if len(tried) == 1:
            barred = (*barred, tried[0])
        elif tried:
            rest = (*rest, *tried)  # another group comes first
        else:
            rest = (*rest, *sorted(counts))
        limits = [masked.forgotten for masked in left]
        if state.forgotten is not None:
            limits.append(state.forgotten)
        self._masks.put_vector(RESIDUE, residue)
        self._masks.change(
            suspects=rest,
            barred=barred,
            forgotten=min(limits, default=None),
            problem=f"the last opening is impossible ({problem}); it leaves with the next",
        )
        flags = dict.fromkeys(counts, _SUSPECT)
        if len(tried) == 1:
            flags = dict.fromkeys(counts, "the total of its last cohort is impossible")
            flags[tried[0]] = _BARRED + _REMEDY
        return Aggregated({}, flags, {})


def _within(candidates: list[_Candidate], limit: int, cohort: int) -> list[_Candidate]:
    """Return candidates with at most this number of headers, and at least a cohort of fresh ones.

    If all are too many, each gets a share; the next requests contain the rest.
    """
    if sum(len(one.headers) for one in candidates) <= limit:
        return candidates
    kept, share = list[_Candidate](), limit // cohort
    for candidate in sorted(candidates, key=lambda one: not one.is_fresh):
        part = candidate
        if len(part.headers) > (share if part.is_fresh else limit):
            part = candidate.up_to_fresh(share)
        if 0 < len(part.headers) <= limit:
            kept.append(part)
            limit -= len(part.headers)
    if sum(one.is_fresh for one in kept) < cohort:
        return []
    return sorted(kept, key=lambda one: one.row.name)


def aggregation_of(
    ledger: Ledger, make: Callable[[], Learner], rules: Rules, privacy: Privacy | None
) -> Aggregation:
    """Return the aggregation of a ledger: under masks, or not; a ledger never changes from one."""
    is_masked = bool(ledger.reader.masks().keyholder)
    if privacy is None and is_masked:
        raise BadInput(
            f"ledger {ledger.path} has sums under masks; the job needs its section [privacy], and "
            "the server its enrolment with the keyholder"
        )
    if privacy is None:
        return Aggregation(ledger, make)
    if not is_masked and ledger.sums.fingerprints().keys() - {BASE}:
        raise BadInput(
            f"ledger {ledger.path} has sums of single workers; a job with a section [privacy] "
            "needs a new ledger"
        )
    privacy.require_room(make(), rules)
    return MaskedAggregation(ledger, make, privacy)


def rebuild_total(ledger: Ledger, make: Callable[[], Learner]) -> Learner:
    """Compute the total of a ledger again from the sums of all workers."""
    is_masked = bool(ledger.reader.masks().keyholder)
    aggregation = MaskedAggregation(ledger, make, None) if is_masked else Aggregation(ledger, make)
    with ledger.transaction(ledger.claim()):
        aggregation.rebuild()
    return aggregation.total
