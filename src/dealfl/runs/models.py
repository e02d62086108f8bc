"""Models of runs and of files."""

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
JOB_SECTION, ABOUT_SECTION = "job", "about"  # sections of a saved model


class About(msgspec.Struct, frozen=True):
    """The round after which a model was taken from a run, and the published version then."""

    round: int | None = None
    version: int | None = None
    published_digest: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """A trained learner, with its job if that is known.

    Parameters
    ----------
    learner : Learner
        Trained learner.
    origin : str
        Path of the file or ledger.
    about : About
        Round and version.
    document : Document, optional
        Parsed job file.
    job_text : str, default ""
        TOML text of the job.
    """

    learner: Learner
    origin: str
    about: About
    document: Document | None = None
    job_text: str = ""

    def info(self) -> dict[str, Any]:
        """Return a description of the model, for JSON.

        Returns
        -------
        dict
            Learner, settings, number of examples, digest and sizes in bytes, by name.
        """
        statistics = self.learner.statistics
        return {
            "origin": self.origin,
            "learner": self.learner.name,
            "settings": self.learner.settings,
            "examples": self.learner.example_count,
            "digest": statistics.digest(),
            "round": self.about.round,
            "version": self.about.version,
            "changed_since_version": self._changed(statistics.digest()),
            "job": None if self.document is None else self.document.name,
            "non_zeros": {name: len(statistics[name]) for name in statistics},
            "memory_bytes": statistics.nbytes,
            "stored_bytes": len(statistics.to_bytes()),
        }

    def _changed(self, digest: str) -> bool | None:
        """Return whether the statistics differ from the published ones; None if unknown."""
        published = self.about.published_digest
        return digest != published if published else None


def open_model(path: str | Path, job: str | Path | None = None) -> Model:
    """Open the model of a saved learner, a run folder or a ledger.

    Parameters
    ----------
    path : str or Path
        Saved model, run folder or ledger.
    job : str or Path, optional
        Job file, if the model does not contain its job.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    BadInput
        If there is no model at the path.
    BadBytes
        If the file is damaged.
    Incompatible
        If the job does not belong to the model.
    """
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
            f"{place} cannot be read: {error.strerror}; give a saved model or a run folder"
        ) from None


def _open_file(place: Path, given: Document | None, text: str) -> Model:
    saved = SavedLearner.read(place)
    if given is None and JOB_SECTION in saved.sections:
        text = saved.sections[JOB_SECTION].decode("utf-8", "replace")
        given = Document.parse(text, f"the job in {place}", place.parent)
    try:
        about = msgspec.json.decode(saved.sections.get(ABOUT_SECTION, b"{}"), type=About)
    except msgspec.MsgspecError as error:
        raise BadBytes(f"{place}: section {ABOUT_SECTION!r} cannot be read: {error}") from None
    return Model(load(place), str(place), about, given, text)


def _open_run(run: RunFolder, given: Document | None, text: str) -> Model:
    statistics, about = _read_total(run)
    if given is None:
        given, text = run.document(), run.job_text()
    learner = make_learner(statistics.schema, given)
    learner.merge(statistics)
    return Model(learner, str(run.ledger), about, given, text)


def _read_total(run: RunFolder) -> tuple[Statistics, About]:
    """Return the total statistics of a ledger after its last closed round."""
    with LedgerReader.open(run.ledger) as ledger:
        total, closed, version = ledger.total(), ledger.closed_rounds(), ledger.last_version()
    if total is None:
        raise BadInput(f"{run.ledger} has no model yet; wait until the first round is closed")
    statistics = Statistics.from_bytes(total, max_bytes=SavedLearner.MAX_BYTES)
    number = closed[-1].number if closed else None
    if version is None:
        return statistics, About(number)
    return statistics, About(number, version.number, version.digest)


def read_statistics(path: str | Path, learner: Learner) -> Statistics:
    """Return the statistics of a saved model or a run, to start a learner from them.

    Parameters
    ----------
    path : str or Path
        Saved model, run folder or ledger.
    learner : Learner
        Learner that the statistics must fit.

    Returns
    -------
    Statistics
        The statistics.

    Raises
    ------
    Incompatible
        If the statistics do not fit the learner.
    """
    place = Path(path)
    if _is_run(place):
        statistics = _read_total(RunFolder.at(place))[0]
    else:
        statistics = SavedLearner.read(place).statistics
    try:
        learner.schema.require_same(statistics.schema)
    except Incompatible as error:
        raise Incompatible(f"the run cannot start from {place}: {error}") from None
    return statistics


def make_learner(schema: Schema, document: Document | None) -> Learner:
    """Return an empty learner for a schema, with all settings of the job."""
    if document is None:
        return from_schema(schema)
    made = plan_without_data(document).make()
    try:
        made.schema.require_same(schema)
    except Incompatible as error:
        raise Incompatible(f"{document.name} is not the job of this model: {error}") from None
    return made
