"""The live model of a worker: what it holds, learned and forgotten in place.

The model is a cache of the journal, in memory or in page files. The journal counts its changes, so
a model that missed one (a process that was killed, a transaction that was rolled back, a damaged
page) is seen and built again from the learned records.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.learners import Change, Learner
from dealfl.learners import Record as AnyRecord
from dealfl.memory import Arc, BudgetedThetaLru, Lru, PagedStorage, Policy, ThetaLru, paged
from dealfl.settings import Amount, Count, OneOf, Share
from dealfl.worker.cost import Done
from dealfl.worker.journal import Journal
from dealfl.worker.tables import State

__all__ = ["MODELS", "POLICIES", "Memory", "ResidentModel", "WorkerKeys", "remove_pages"]

MODELS = ("stateless", "resident")
POLICIES: dict[str, Callable[..., Policy]] = {
    "theta_lru": ThetaLru,
    "lru": Lru,
    "arc": Arc,
    "budgeted_theta_lru": BudgetedThetaLru,
}

_CHANGES = "changes"  # of the learned records, a setting of the journal
_log = logging.getLogger("dealfl.worker")

Answer = TypeVar("Answer")


class Memory(Struct, frozen=True, kw_only=True):
    """The page frames of a resident model that is larger than memory.

    Parameters
    ----------
    frames : int
        Number of pages in memory, at least 1.
    policy : str
        Page replacement policy, one of `POLICIES`.
    theta : float
        Fraction of the frames that the θ policies replace.
    """

    frames: Annotated[Count, Meta(description="number of pages of 4096 bytes in memory")]
    policy: Annotated[
        str, OneOf(POLICIES), Meta(description="which page leaves memory for another")
    ] = "theta_lru"
    theta: Annotated[Share, Meta(description="share of the frames that the θ policies replace")] = (
        0.3
    )

    def make_policy(self, frames: int) -> Policy:
        """Return the policy with a number of frames.

        Parameters
        ----------
        frames : int
            Number of pages in memory.

        Returns
        -------
        Policy
            A new policy.
        """
        kind = POLICIES[self.policy]
        return kind(frames, theta=self.theta) if "theta" in self.policy else kind(frames)


class WorkerKeys(Struct, frozen=True, kw_only=True):
    """What a worker keeps beside its records.

    Parameters
    ----------
    model : str
        One of `MODELS`.
    memory : Memory or None
        Page frames of a resident model; None keeps it in memory.
    validation_share, recovery_tolerance : float
        See `Worker`.
    """

    model: Annotated[
        str,
        OneOf(MODELS),
        Meta(description="stateless: computes changes only; resident: keeps a live model"),
    ] = "stateless"
    memory: Annotated[
        Memory | None, Meta(description="page frames of a resident model; without it, in memory")
    ] = None
    validation_share: Annotated[
        Share, Meta(description="share of the records held back to review evictions; 0: none")
    ] = 0.0
    recovery_tolerance: Annotated[
        Amount, Meta(description="loss of validation score up to which an eviction stands")
    ] = 0.01

    def __post_init__(self) -> None:
        """Reject page frames without a live model."""
        if self.memory is not None and not self.is_resident:
            raise BadInput(
                'memory holds the pages of a live model; set model = "resident", or remove memory'
            )

    @property
    def is_resident(self) -> bool:
        """Whether the worker keeps a live model; reviewing evictions needs one."""
        return self.model == "resident" or self.validation_share > 0


class ResidentModel:
    """The live model of a journal's learned records."""

    def __init__(
        self, journal: Journal, make: Callable[[], Learner], memory: Memory | None = None
    ) -> None:
        self._journal, self._make, self._memory = journal, make, memory
        self._live: Learner | None = None
        self._at = ""  # the journal's count of changes that the model has seen
        self._unsettled: list[tuple[Sequence[AnyRecord], ...]] = []
        self._storage: PagedStorage | None = None
        self._counts = (0, 0, 0)
        self.rebuilt = 0  # times

    @property
    def learner(self) -> Learner:
        """The model; it is built from the journal if it missed a change."""
        now = self._journal.setting(_CHANGES, "0")
        if now != self._at:
            self._unsettled.clear()
        if self._live is None or now != self._at:
            self._live = None
            live = self._build(self._journal.records(State.LEARNED))
            for change in self._unsettled:
                live.update_records(*change)
            self._live, self._at = live, now
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
        self._unsettled.append((learn, forget, kept))
        self._note()
        return change

    def ask(self, ask: Callable[[Learner], Answer]) -> Answer:
        """Return what the model answers; a model in damaged pages is built again first."""
        try:
            return ask(self.learner)
        except (BadBytes, NotLearned, OSError) as error:
            _log.warning("the model of %s is built again: %s", self._journal.path, error)
            self._live = None
            return ask(self.learner)

    def retrain(self, records: Sequence[AnyRecord]) -> None:
        """Train a new model on all records."""
        self._live = None
        self._live = self._build(records)
        self._note()

    def settle(self) -> Done:
        """Note that the journal holds all changes; return pages and factors since the last time."""
        self._unsettled.clear()
        before, self._counts = self._counts, self._count()
        ins, outs, again = (new - old for new, old in zip(self._counts, before, strict=True))
        return Done(pages_in=ins, pages_out=outs, refactorisations=again)

    def flush(self) -> None:
        """Write all pages, so that no forgotten value stays in their files."""

        def write(_: Learner) -> None:
            if self._storage is not None:
                self._storage.flush()

        self.ask(write)

    def _note(self) -> None:
        self._at = str(int(self._journal.setting(_CHANGES, "0")) + 1)
        self._journal.set_setting(_CHANGES, self._at)

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
        if self._journal.path == ":memory:":
            folder = Path(tempfile.mkdtemp(prefix="dealfl-pages-"))
            weakref.finalize(self, partial(shutil.rmtree, folder, ignore_errors=True))
            return folder
        return remove_pages(self._journal)


def remove_pages(journal: Journal) -> Path:
    """Remove the page files of earlier models, which may hold erased records; return the folder."""
    folder = Path(f"{journal.path}-pages")
    if folder.exists():
        shutil.rmtree(folder)
    return folder
