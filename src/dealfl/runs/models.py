"""The model of a run or of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dealfl.errors import BadBytes, BadInput, Incompatible
from dealfl.jobs import Document, plan_without_data
from dealfl.learners import Learner, SavedLearner, Statistics, from_schema, load
from dealfl.runs.folder import RunFolder
from dealfl.schema import Schema
from dealfl.server import LedgerReader

__all__ = ["About", "Model", "make_learner", "open_model", "read_statistics"]

_SQLITE = b"SQLite format 3\x00"
JOB_SECTION, ABOUT_SECTION = "job", "about"  # of a saved model


class About(msgspec.Struct, frozen=True):
    """Where in a run a model was taken: after which round, and which version was public then."""

    round: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A learner with all it has learned, and the job it belongs to where that is known."""

    learner: Learner
    origin: str
    about: About
    document: Document | None = None
    job_text: str = ""

    def info(self) -> dict[str, Any]:
        """Return what there is to know, as plain values."""
        statistics = self.learner.statistics
        return {
            "origin": self.origin,
            "learner": self.learner.name,
            "settings": self.learner.settings,
            "examples": self.learner.example_count,
            "digest": statistics.digest(),
            "round": self.about.round,
            "version": self.about.version,
            "job": None if self.document is None else self.document.name,
            "non_zeros": {name: len(statistics[name]) for name in statistics},
            "memory_bytes": statistics.nbytes,
            "stored_bytes": len(statistics.to_bytes()),
        }


def open_model(path: str | Path, job: str | Path | None = None) -> Model:
    """Return the model of a saved learner, of a run folder, or of a ledger."""
    place = Path(path)
    given = None if job is None else Document.read(job)
    text = "" if job is None else Path(job).read_text(encoding="utf-8")
    if _is_run(place):
        return _open_run(RunFolder.at(place), given, text)
    return _open_file(place, given, text)


def _is_run(place: Path) -> bool:
    if place.is_dir():
        return True
    try:
        with place.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise BadInput(
            f"{place} can not be read: {error.strerror}; name a saved model or a run folder"
        ) from None


def _open_file(place: Path, given: Document | None, text: str) -> Model:
    saved = SavedLearner.read(place)
    if given is None and JOB_SECTION in saved.sections:
        text = saved.sections[JOB_SECTION].decode("utf-8", "replace")
        given = Document.parse(text, f"the job in {place}", place.parent)
    try:
        about = msgspec.json.decode(saved.sections.get(ABOUT_SECTION, b"{}"), type=About)
    except msgspec.MsgspecError as error:
        raise BadBytes(f"{place}: what it says about itself can not be read: {error}") from None
    return Model(load(place), str(place), about, given, text)


def _open_run(run: RunFolder, given: Document | None, text: str) -> Model:
    statistics, about = _read_total(run)
    if given is None:
        given, text = run.document(), run.job_text()
    learner = make_learner(statistics.schema, given)
    learner.merge(statistics)
    return Model(learner, str(run.ledger), about, given, text)


def _read_total(run: RunFolder) -> tuple[Statistics, About]:
    """Return all that a ledger has counted up to its last closed round."""
    with LedgerReader.open(run.ledger) as ledger:
        total, closed, version = ledger.total(), ledger.closed_rounds(), ledger.last_version()
    if total is None:
        raise BadInput(f"{run.ledger} has no model yet: no round was closed; wait for one")
    statistics = Statistics.from_bytes(total, max_bytes=SavedLearner.MAX_BYTES)
    number = closed[-1].number if closed else None
    return statistics, About(number, version.number if version else None)


def read_statistics(path: str | Path, learner: Learner) -> Statistics:
    """Return the statistics of a saved model or a run, for a learner that starts from them."""
    place = Path(path)
    if _is_run(place):
        statistics = _read_total(RunFolder.at(place))[0]
    else:
        statistics = SavedLearner.read(place).statistics
    try:
        learner.schema.require_same(statistics.schema)
    except Incompatible as error:
        raise Incompatible(f"{place} can not be gone on from: {error}") from None
    return statistics


def make_learner(schema: Schema, document: Document | None) -> Learner:
    """Return an empty learner for statistics of that schema, with all settings of the job."""
    if document is None:
        return from_schema(schema)
    made = plan_without_data(document).make()
    try:
        made.schema.require_same(schema)
    except Incompatible as error:
        raise Incompatible(f"{document.name} is not the job of this model: {error}") from None
    return made
