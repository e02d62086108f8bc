"""The models on a device: its own, which reviews evictions, and the published one.

A live model is a cache of the journal, in memory or in page files: what the worker holds, learned
and forgotten in place. The journal counts its changes, so a model that missed one (a process that
was killed, a transaction that was rolled back, a damaged page) is seen and built again from the
learned records.

Evicted records are learned again if the live model is worse without them. A worker holds back a
small share of its records for validation, and learns each when a newer one replaces it; a worker
with too few records for a verdict holds none back. Evicted records stay in the GRACE state until
the next training: outside the statistics, but within reach of an erasure.
"""

from __future__ import annotations

import hashlib
import logging
import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct
from numpy.typing import NDArray

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.exact import PagedStorage, Statistics, paged
from dealfl.learners import Change, Histories, HistoryLearner, Learner, RowLearner
from dealfl.learners import Record as AnyRecord
from dealfl.power import Training
from dealfl.protocol import Published
from dealfl.settings import Amount, Count, OneOf, Share
from dealfl.storage import Arc, BudgetedThetaLru, Lru, Policy, ThetaLru
from dealfl.worker.journal import Journal, Record, State

MODELS = ("stateless", "resident")
POLICIES: dict[str, Callable[..., Policy]] = {
    "theta_lru": ThetaLru,
    "lru": Lru,
    "arc": Arc,
    "budgeted_theta_lru": BudgetedThetaLru,
}

_log = logging.getLogger("dealfl.worker")

Answer = TypeVar("Answer")
_MIN_VALIDATION = 3  # fewer decide by chance, at the price of many trainings


class Memory(Struct, frozen=True, kw_only=True):
    """The page frames of a resident model that is larger than memory."""

    frames: Annotated[Count, Meta(description="number of pages of 4096 bytes in memory")]
    policy: Annotated[
        str, OneOf(POLICIES), Meta(description="which page leaves memory for another")
    ] = "theta_lru"
    theta: Annotated[Share, Meta(description="share of the frames that the θ policies replace")] = (
        0.3
    )

    def make_policy(self, frames: int) -> Policy:
        """Return the policy with a number of frames."""
        kind = POLICIES[self.policy]
        return kind(frames, theta=self.theta) if "theta" in self.policy else kind(frames)


class WorkerKeys(Struct, frozen=True, kw_only=True):
    """What a worker keeps beside its records."""

    model: Annotated[
        str,
        OneOf(MODELS),
        Meta(description="stateless: computes changes only; resident: keeps a live model"),
    ] = "stateless"
    memory: Annotated[
        Memory | None, Meta(description="page frames of a resident model; without it, in memory")
    ] = None
    validation_share: Annotated[
        Share,
        Meta(
            description="share of the records held back to review evictions, if it "
            f"makes {_MIN_VALIDATION} or more; 0: none"
        ),
    ] = 0.0
    recovery_tolerance: Annotated[
        Amount, Meta(description="loss of validation score up to which an eviction stands")
    ] = 0.01

    drift: Annotated[
        bool,
        Meta(
            description="a resident model is tested on new examples; if it fails on them, the "
            "records from before the change are evicted"
        ),
    ] = False

    def __post_init__(self) -> None:
        """Reject page frames without a live model."""
        if self.memory is not None and not self.is_resident:
            raise BadInput(
                'memory holds the pages of a live model; set model = "resident", or remove memory'
            )

    @property
    def is_resident(self) -> bool:
        """Whether the worker keeps a live model; reviewing evictions needs one."""
        return self.model == "resident" or self.validation_share > 0 or self.drift


class ResidentModel:
    """The live model of a journal's learned records."""

    def __init__(
        self, journal: Journal, make: Callable[[], Learner], memory: Memory | None
    ) -> None:
        make().require_packages()
        self.journal = journal
        self._make = make
        self._memory = memory
        self._live: Learner | None = None
        self._changes = -1  # the journal's count of those that the model has seen
        self._uncommitted: list[tuple[Sequence[AnyRecord], ...]] = []
        self._storage: PagedStorage | None = None
        self._counts = (0, 0, 0)
        self.rebuilt = 0  # times

    @property
    def learner(self) -> Learner:
        """The model; it is built from the journal if it missed a change."""
        changes = self.journal.state.changes
        if changes != self._changes:
            self._uncommitted.clear()
        if self._live is None or changes != self._changes:
            self._live = None
            live = self._build(self.journal.records(State.LEARNED))
            for change in self._uncommitted:
                live.update_records(*change)
            self._live = live
            self._changes = changes
        return self._live

    def update(
        self,
        learn: Sequence[AnyRecord],
        forget: Sequence[AnyRecord],
        kept: Sequence[AnyRecord] = (),
    ) -> Change:
        """Learn and forget records in place, before the journal does."""
        _ = self.learner  # with its storage
        if self._storage is not None:
            self._storage.new_round()
        try:
            change = self.ask(lambda live: live.update_records(learn, forget, kept))
        except BaseException:
            self._live = None  # it may hold half a change
            raise
        self._uncommitted.append((learn, forget, kept))
        self._note()
        return change

    def ask(self, ask: Callable[[Learner], Answer]) -> Answer:
        """Return what the model answers; a model in damaged pages is built again first."""
        try:
            return ask(self.learner)
        except (BadBytes, NotLearned, OSError) as error:
            _log.warning("the model of %s is built again: %s", self.journal.path, error)
            self._live = None
            return ask(self.learner)

    def retrain(self, records: Sequence[AnyRecord]) -> None:
        """Train a new model on all records."""
        self._live = None
        self._live = self._build(records)
        self._note()

    def commit(self) -> Training:
        """Note that the journal holds all changes; return pages and factors since the last time."""
        self._uncommitted.clear()
        before = self._counts
        self._counts = self._count()
        ins, outs, again = (new - old for new, old in zip(self._counts, before, strict=True))
        return Training(pages_in=ins, pages_out=outs, refactorisations=again)

    def flush(self) -> None:
        """Write all pages, so that no forgotten value stays in their files."""

        def write(_: Learner) -> None:
            if self._storage is not None:
                self._storage.flush()

        self.ask(write)

    def _note(self) -> None:
        self.journal.state.changes += 1
        self._changes = self.journal.state.changes

    def _count(self) -> tuple[int, int, int]:
        """Return the pages read and written, and the factors after the first, of this model."""
        again = max(getattr(self._live, "factorisations", 0) - 1, 0)
        if self._storage is None:
            return 0, 0, again
        return self._storage.swaps.ins, self._storage.swaps.outs, again

    def _build(self, records: Sequence[AnyRecord]) -> Learner:
        learner = self._make()
        if self._memory is not None:
            folder = self._empty_folder()
            self._storage = paged(folder, self._memory.frames, self._memory.make_policy)
            learner = type(learner)(**learner.settings, storage=self._storage)
        self.rebuilt += 1
        learner.update_records(records, ())
        self._counts = self._count()  # only those of trainings are reported
        return learner

    def _empty_folder(self) -> Path:
        """Return the folder of the page files, without those of an earlier model."""
        if self._storage is not None:
            self._storage.abandon()
        if self.journal.path == ":memory:":
            folder = Path(tempfile.mkdtemp(prefix="dealfl-pages-"))
            weakref.finalize(self, partial(shutil.rmtree, folder, ignore_errors=True))
            return folder
        return remove_pages(self.journal)


def remove_pages(journal: Journal) -> Path:
    """Remove the page files of earlier models, which may hold erased records; return the folder."""
    folder = Path(f"{journal.path}-pages")
    if folder.exists():
        shutil.rmtree(folder)
    return folder


class Recovery:
    """Holds records back for validation, and detects evictions that hurt the model.

    A secret draws one record of every 1 / share, so that workers hold back different ones. The
    newest drawn records are held back; one that a newer record replaces is learned.
    """

    def __init__(
        self, journal: Journal, *, secret: bytes, validation_share: float, tolerance: float
    ) -> None:
        if not 0 <= validation_share < 1 or tolerance < 0:
            raise BadInput(
                f"validation_share is {validation_share} and tolerance is {tolerance}; "
                "they must be ≥ 0 and < 1, and ≥ 0"
            )
        self._journal = journal
        self._secret = secret
        self._share = validation_share
        self._tolerance = tolerance
        self._scored: list[int] = []  # operations of each score

    def restart(self, secret: bytes) -> None:
        """Draw the records of another worker."""
        self._secret = secret
        self._scored.clear()

    @property
    def active(self) -> bool:
        """Whether any records are held back for validation."""
        return self._share > 0

    def draws(self, identity: int) -> bool:
        """Return whether a record may be held back; depends only on the secret and its id."""
        stratum = int(identity * self._share)  # records with the same one: one of them is drawn
        first = math.ceil(stratum / self._share)
        count = math.ceil((stratum + 1) / self._share) - first
        draw = hashlib.blake2b(stratum.to_bytes(8, "little"), key=self._secret, digest_size=8)
        return identity == first + int.from_bytes(draw.digest(), "little") % count

    @property
    def size(self) -> int:
        """The number of records to hold back: none if they were too few for a verdict."""
        states = (State.LEARNED, State.WAITING, State.VALIDATION)
        size = int(self._share * sum(map(self._journal.count, states)))
        return size if size >= _MIN_VALIDATION else 0

    @property
    def can_judge(self) -> bool:
        """Whether enough records are held back to tell a worse model from a better one."""
        return self.active and self._journal.count(State.VALIDATION) >= _MIN_VALIDATION

    def score(self, model: Learner) -> float | None:
        """Return the score of a model on the records held back; None if there is none."""
        hidden = self._journal.records(State.VALIDATION)
        learned: Sequence[Record] = ()
        if model.whole_owners:
            learned = self._journal.records_of(record.owner for record in hidden)[State.LEARNED]
        score = model.score_records(hidden, learned)
        if score is not None:
            self._scored.append(model.last_work.operations)
        return score

    def score_new(
        self, resident: ResidentModel, new: Sequence[Record], known: Sequence[Record]
    ) -> float | None:
        """Return the score of a live model on records that it has not learned; None for none."""
        score = resident.ask(lambda live: live.score_records(new, known))
        if score is not None:
            self._scored.append(resident.learner.last_work.operations)
        return score

    def take_operations(self) -> tuple[int, ...]:
        """Return the operations of each score since the last call."""
        scored = tuple(self._scored)
        self._scored.clear()
        return scored

    def is_worse(self, with_them: float, without_them: float | None) -> bool:
        """Return whether an eviction made the score worse by more than the tolerance."""
        return without_them is not None and with_them - without_them > self._tolerance

    def current(self, assigned: Fraction) -> Fraction:
        """Return the current θ: the assigned one, or a part of it after a bad eviction."""
        return assigned * self._journal.state.theta_part if self.active else assigned

    def adapt(self, assigned: Fraction, *, lower: bool) -> None:
        """Halve θ after a bad eviction; after a good one double it, up to the assigned one."""
        state = self._journal.state
        part = state.theta_part
        state.theta_part = part / 2 if lower else min(part * 2, Fraction(1))
        state.theta = state.theta_part * assigned


class LocalModel:
    """The published model in the journal; a newer version replaces it. A prediction is a use."""

    def __init__(
        self, journal: Journal, make: Callable[[], Learner], resident: ResidentModel | None
    ) -> None:
        self._journal = journal
        self._make = make
        self._resident = resident
        self._whole_owners = make().whole_owners
        self._key = ("", 0)  # epoch and version
        self._model: Learner | None = None

    def restart(self, resident: ResidentModel | None) -> None:
        """Read the journal of another worker."""
        self._resident = resident
        self._key = ("", 0)
        self._model = None

    def store(self, message: Published) -> None:
        """Store a version; a difference only if it leads to the model that was published."""
        version, statistics = self._journal.published() or (0, b"")
        if message.version <= version:
            return
        body = message.statistics
        if message.base:
            body = _add(statistics, body) if message.base == version else b""
        if (message.base or message.hash) and hashlib.sha256(body).digest() != message.hash:
            problem = f"version {message.version} of the model does not have its hash"
            self._journal.state.refused = problem
            return
        self._journal.put_published(message.version, body, message.digest)
        self._journal.state.fetched_bytes += len(message.statistics)

    def predict(self, features: object, live: Learner | None = None) -> NDArray[Any]:
        """Return predictions for rows of features, of the published model or a live one."""
        if self._whole_owners:
            raise BadInput("this job ranks items: use recommend(owner, k) instead of predict")
        model = live or self._read()
        assert isinstance(model, RowLearner)
        return model.predict(features) if live else model.predict_federated(features)

    def note_use(self, owner: bytes, features: object = None) -> None:
        """Count what a prediction for an owner reads as used now.

        These are the owner's examples, or the neighbours that a live model finds; without features,
        those of the owner's newest example.
        """
        records = self._journal.records_of([owner])[State.LEARNED]
        used = None
        if self._resident is not None and records:
            used = self._resident.ask(lambda live: _find_used(live, records[-1:], features))
        self._journal.touch((record.id for record in records) if used is None else used)

    def recommend(self, owner: bytes, k: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return k items for an owner; its records count as used now."""
        if not self._whole_owners:
            raise BadInput("this job predicts targets: use predict(features) instead of recommend")
        model = self._read()
        assert isinstance(model, HistoryLearner)
        records = self._journal.records_of([owner])[State.LEARNED]
        self._journal.touch(record.id for record in records)
        history = sorted({Histories.decode(record.body) for record in records})
        return model.recommend(history, k)

    def _read(self) -> Learner:
        published = self._journal.published()
        if published is None:
            raise NotLearned(
                "no model is here yet; none is published, or the worker has not fetched it"
            )
        version, statistics = published
        key = (self._journal.state.epoch, version)
        if self._model is None or key != self._key:
            model = self._make()
            try:
                model.merge(Statistics.from_bytes(statistics))
            except BadInput as error:
                raise BadBytes(f"version {version} of the model is damaged: {error}") from error
            self._model = model
            self._key = key
        return self._model


def _find_used(live: Learner, newest: Sequence[Record], features: object) -> list[int] | None:
    """Return the ids of the neighbours that a live model reads; None if it has none."""
    if not isinstance(live, RowLearner):
        return None
    return live.find_used(live.rows_of(newest)[0] if features is None else features)


def _add(statistics: bytes, change: bytes) -> bytes:
    """Return the bytes of a sum; empty if there is none."""
    try:
        return (Statistics.from_bytes(statistics) + Statistics.from_bytes(change)).to_bytes()
    except BadInput:
        return b""
