"""The keyholder: a deterministic state machine that adds masks, and never sees an update.

Why its rules suffice. Each opening shows the server one sum of updates. A linear combination of
openings has a last one. In it, at least t workers have an example that no update sent before
contains, in their last update of this opening. Updates of a worker are opened in the order in which
they were made, so that no earlier opening contains this example, and no other update of this one
takes it out. The combination therefore contains examples of at least t workers.

Without the order, a server could open first the update that takes an example out, or that repeats
it in a new incarnation, and then the update that brings it. Without `fresh`, it could surround one
update with zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from dealfl.errors import BadInput
from dealfl.exact import Schema
from dealfl.keyholder.journal import KeyholderJournal, Opening
from dealfl.masks import (
    MAX_MASKED_BYTES,
    SERVER,
    WORKER,
    Answer,
    BadHeader,
    Enrolment,
    Ring,
    Scope,
    Shared,
    accepts_header,
    accepts_request,
    draw_nonce,
    draw_private_key,
    hash_request,
    name_key,
    public_key,
    seal_answer,
    sum_masks,
    tag_ready,
)
from dealfl.protocol import Header, Message, Open, Ready, Step, check_id, problem_of

_MIN_COHORT = 2
_WIDTHS = (32, 64, 96)  # bits
_MAX_BAD = 100  # headers that one refusal names


@dataclass(frozen=True, slots=True)
class KeyholderRules:
    """What the keyholder's operator requires of every opening."""

    cohort: int = 5  # workers with fresh examples
    alone_after_s: float | None = None  # since the last opening, after which fewer will do

    def __post_init__(self) -> None:
        """Refuse a cohort that hides nobody."""
        if self.cohort < _MIN_COHORT:
            raise BadInput(
                f"cohort is {self.cohort}; a sum of fewer than {_MIN_COHORT} workers hides nobody"
            )


class _Refused(Exception):
    """A request is refused with an answer."""

    def __init__(self, code: str, reason: str, **more: object) -> None:
        super().__init__(reason)
        self.answer = Answer(refused=reason, code=code, **more)  # type: ignore[arg-type]


@dataclass(slots=True)
class _Request:
    """A request that is being checked."""

    message: Open
    hash: bytes
    scope: Scope
    ring: Ring
    bad: list[BadHeader] = field(default_factory=list)
    # secrets that headers were sealed with, by header and whether it leaves
    matches: dict[tuple[Header, bool], Shared | None] = field(default_factory=dict)


class Keyholder:
    """The second party of masked sums: it opens the sum of a cohort, each key once.

    One call of `handle` is one transaction of its journal; answers leave after it.
    """

    is_asleep = False  # it never closes its connection

    def __init__(
        self,
        name: str,
        journal: KeyholderJournal,
        private_key: bytes,
        rules: KeyholderRules | None = None,
        jobs: Sequence[str] = (),  # that it reports to when it starts
    ) -> None:
        self.name = check_id(name, "keyholder")
        self.rules = rules or KeyholderRules()
        self._journal = journal
        self._private = private_key
        self._public = public_key(private_key)
        self._term = journal.claim()
        self._jobs = jobs
        self._reports = True
        self.strangers = 0  # messages that no member has sent
        self._shared: dict[tuple[str, str], list[Shared]] = {}
        self._asked_s: dict[str, float] = {}  # by job, before its first opening
        if journal.key_name not in ("", self.key_name):
            raise BadInput(
                f"{journal.kind} {journal.path} belongs to the key {journal.key_name}, not to "
                f"{self.key_name}; `dealfl keyholder restore` draws a new key for it"
            )
        with journal.transaction(self._term):
            journal.put_key_name(self.key_name)

    @property
    def key_name(self) -> str:
        """Name of the keyholder's public key."""
        return name_key(self._public)

    @property
    def workers(self) -> list[str]:
        """Names of the enrolled workers."""
        return self._journal.members(WORKER)

    def enrol(self, name: str, role: str = WORKER, *, again: bool = False) -> Enrolment:
        """Enrol a worker or the server; return what its operator must be given, once."""
        check_id(name, role)
        if name in self._journal.members(role) and not again:
            raise BadInput(
                f"{role} {name!r} is enrolled; its file is given once. If it is lost, enrol it "
                "with --again: the old file is then worthless"
            )
        private = draw_private_key()
        with self._journal.transaction(self._term):
            self._journal.put_member(role, name, public_key(private))
        self._shared.pop((role, name), None)
        return Enrolment(
            name=name, role=role, keyholder=self._public.hex(), private_key=private.hex()
        )

    # -- messages -------------------------------------------------------------------------------

    def handle(self, messages: Iterable[Message], now_s: float, *, decoded: bool = False) -> Step:
        """Answer requests in one transaction."""
        replies: list[Message] = []
        with self._journal.transaction(self._term):
            if self._reports:
                replies += [self._report(job) for job in self._jobs]
            for message in messages:
                if isinstance(message, Open) and (decoded or problem_of(message) is None):
                    replies += self._receive(message, now_s)
        self._reports = False
        return Step(tuple(replies), None)

    def note_disconnect(self) -> None:
        """Do nothing: it reports to the server when it is connected again."""

    @property
    def openings(self) -> int:
        """Number of openings since the key was drawn."""
        return self._journal.count_openings()

    def reconnect(self) -> None:
        """Report to the server in the next call: a request may be lost."""
        self._reports = True

    def _report(self, job: str) -> Ready:
        ready = Ready(
            job=job,
            worker=self.name,
            keyholder=self.key_name,
            cohort=self.rules.cohort,
            enrolled=len(self.workers),
            alone_after_s=self.rules.alone_after_s or 0.0,
        )
        server = self._find_server()
        return (
            ready
            if server is None
            else msgspec.structs.replace(ready, tag=tag_ready(server, ready))
        )

    def _receive(self, message: Open, now_s: float) -> list[Message]:
        server = self._find_server()
        if server is None or message.worker != self.name or not accepts_request(server, message):
            self.strangers += 1
            return []
        try:
            request = self._read(message)
            nonce, answer = self._open(request, now_s)
        except _Refused as refused:
            nonce, answer = draw_nonce(), refused.answer
        return [seal_answer(server, message, answer, nonce)]

    def _find_server(self) -> Shared | None:
        names = self._journal.members(SERVER)
        return self._find(SERVER, names[0])[0] if names else None

    def _find(self, role: str, name: str) -> list[Shared]:
        """Return what the keyholder shares with a member, by each of its keys, the last first."""
        key = (role, name)
        if key not in self._shared:
            publics = self._journal.find_keys(role, name)
            self._shared[key] = [Shared(self._private, each, self._public) for each in publics]
        return self._shared[key]

    def _match(self, request: _Request, header: Header, *, leaves: bool) -> Shared | None:
        """Return the secret that a header was sealed with; a former one only if it leaves.

        Headers of an opening that exists may have a former one, too.
        """
        key = (header, leaves)
        if key not in request.matches:
            shared = self._find(WORKER, header.worker)
            accepted = (
                one
                for one in (shared if leaves else shared[:1])
                if accepts_header(one, request.scope, header)
            )
            request.matches[key] = next(accepted, None)
        return request.matches[key]

    # -- requests -------------------------------------------------------------------------------

    def _read(self, message: Open) -> _Request:
        try:
            schema = msgspec.json.decode(message.schema, type=Schema)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _Refused("request", "the schema cannot be read") from error
        is_known = all(spec.size >= 0 and spec.bits in _WIDTHS for spec in schema.arrays)
        if not is_known or schema.canonical() != message.schema:
            raise _Refused("request", "the schema is not supported")
        ring = Ring(schema)
        if not 0 < ring.size_bytes <= MAX_MASKED_BYTES:
            raise _Refused("request", f"a vector of {ring.size_bytes} bytes is not supported")
        scope = Scope(message.job, message.epoch, schema.digest())
        return _Request(message, hash_request(message), scope, ring)

    def _open(self, request: _Request, now_s: float) -> tuple[bytes, Answer]:
        """Journal an opening, or find it; return the sum of its masks."""
        found = self._journal.find_opening(request.hash)
        opening = found or self._admit(request, now_s)
        message = request.message
        masks = sum_masks(
            request.ring,
            request.scope,  # since it was found, a worker may have been enrolled again
            self._match_all(request, message.plus, leaves=found is not None),
            self._match_all(request, message.minus, leaves=True),
        )
        return opening.nonce, Answer(masks, opening.workers)

    def _match_all(
        self, request: _Request, headers: Sequence[Header], *, leaves: bool
    ) -> list[tuple[Shared, Header]]:
        pairs = []
        for header in headers:
            shared = self._match(request, header, leaves=leaves)
            assert shared is not None, "the headers of an opening were authentic"
            pairs.append((shared, header))
        return pairs

    def _admit(self, request: _Request, now_s: float) -> Opening:
        message = request.message
        last = self._require_next(message)
        self._check_plus(request)
        self._check_minus(request)
        if request.bad:
            bad = tuple(request.bad[:_MAX_BAD])
            reason = f"{bad[0].worker}: {bad[0].reason}"
            raise _Refused("headers", f"{len(request.bad)} headers are refused; {reason}", bad=bad)
        workers = self._require_cohort(message, now_s)
        if last is None and message.epoch not in self._journal.epochs(message.job):
            self._journal.begin_epoch(message.job, message.epoch)
        opening = Opening(message.number, request.hash, draw_nonce(), workers, now_s)
        self._journal.put_opening(message.job, message.epoch, opening)
        self._journal.put_keys(message.job, message.epoch, message.number, message.plus)
        self._journal.remove_keys(message.number, message.minus)
        return opening

    def _require_next(self, message: Open) -> Opening | None:
        """Refuse a request that does not follow the last opening: a journal or ledger is older."""
        if (other := self._journal.find_other_job(message.job)) is not None:
            raise _Refused(
                "request",
                f"this keyholder serves the job {other!r}; the same examples in two jobs would "
                "show their difference, so that another job needs a keyholder of its own",
            )
        epochs = self._journal.epochs(message.job)
        if message.epoch in epochs[:-1]:
            raise _Refused("ledger", f"epoch {message.epoch} of the ledger has ended")
        last = self._journal.last_opening(message.job, message.epoch)
        number = last.number if last else 0
        if message.number <= number:
            raise _Refused(
                "ledger", f"opening {message.number} exists; the ledger is an older copy"
            )
        if message.number > number + 1:
            raise _Refused(
                "keyholder",
                f"the keyholder knows {number} openings, the ledger {message.number - 1}: the "
                "keyholder's journal is an older copy; run `dealfl keyholder restore`",
            )
        return last

    def _check_plus(self, request: _Request) -> None:
        """Check that keys are authentic, new, and in the order of each worker's updates."""
        job = request.message.job
        reached: dict[str, tuple[int, int]] = {}
        nonces: set[bytes] = set()
        for header in request.message.plus:
            name = header.worker
            before = reached.get(name) or self._journal.reached(job, name)
            place = (header.incarnation, header.sequence)
            refuse = partial(self._refuse, request, header)
            if not self._is_authentic(request, header, leaves=False):
                continue
            if not self._is_in_order(place, before):
                refuse("it is not later than what was opened", before[0])
            elif header.nonce in nonces or self._journal.find_key(header.nonce) is not None:
                refuse("its nonce was used before", header.incarnation)
            reached[name] = max(place, before)
            nonces.add(header.nonce)

    def _is_in_order(self, place: tuple[int, int], before: tuple[int, int]) -> bool:
        return place > before

    def _check_minus(self, request: _Request) -> None:
        """Check that keys were opened before, in this epoch, and have not left."""
        nonces: set[bytes] = set()
        for header in request.message.minus:
            if not self._is_authentic(request, header, leaves=True):
                continue
            key = self._journal.find_key(header.nonce)
            own = (request.message.job, request.message.epoch, header.seal)
            if key is None or (key.job, key.epoch, key.seal) != own:
                self._refuse(request, header, "it leaves and was never opened")
            elif key.removed or header.nonce in nonces:
                self._refuse(request, header, "it has left already")
            nonces.add(header.nonce)

    def _is_authentic(self, request: _Request, header: Header, *, leaves: bool) -> bool:
        if self._match(request, header, leaves=leaves) is not None:
            return True
        known = self._find(WORKER, header.worker)
        self._refuse(
            request, header, "its header is not authentic" if known else "it is not enrolled"
        )
        return False

    def _refuse(self, request: _Request, header: Header, reason: str, above: int = 0) -> None:
        request.bad.append(BadHeader(header.worker, reason, above))

    def _require_cohort(self, message: Open, now_s: float) -> int:
        """Return how many workers have fresh examples in their last update; refuse too few."""
        final = {header.worker: header for header in message.plus}
        workers = sum(map(self._is_fresh, final.values()))
        cohort = max(self.rules.cohort, message.cohort)
        if workers >= cohort:
            return workers
        reason = f"{workers} workers have fresh examples; {cohort} are required"
        if self.rules.alone_after_s is None:
            raise _Refused("cohort", reason)
        from_s = self._journal.last_opened_s(message.job)
        if from_s is None:
            from_s = self._asked_s.setdefault(message.job, now_s)
        wait_s = from_s + self.rules.alone_after_s - now_s
        if wait_s > 0.0:
            raise _Refused("cohort", reason, retry_s=wait_s)
        return workers

    def _is_fresh(self, header: Header) -> bool:
        return header.fresh >= 1
