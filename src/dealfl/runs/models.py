"""The model of a run or of a file: what it is, and how it leaves for elsewhere."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dealfl.errors import BadBytes, BadInput, Incompatible
from dealfl.jobs import Document
from dealfl.learners import Learner, Statistics, files, load
from dealfl.runs.folder import RunFolder
from dealfl.runs.rebuilding import learner_for
from dealfl.server import LedgerReader

__all__ = ["Model", "export_model", "open_model", "statistics_from"]

_SQLITE = b"SQLite format 3\x00"
_JOB, _ABOUT = "job", "about"


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
        return _of_run(RunFolder.at(place), given, text)
    return _of_file(place, given, text)


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


def _of_file(place: Path, given: Document | None, text: str) -> Model:
    saved = files.read(place)
    if given is None and _JOB in saved.sections:
        text = saved.sections[_JOB].decode("utf-8", "replace")
        given = Document.parse(text, f"the job in {place}", place.parent)
    try:
        about = msgspec.json.decode(saved.sections.get(_ABOUT, b"{}"), type=About)
    except msgspec.MsgspecError as error:
        raise BadBytes(f"{place}: what it says about itself can not be read: {error}") from None
    return Model(load(place), str(place), about, given, text)


def _of_run(run: RunFolder, given: Document | None, text: str) -> Model:
    statistics, about = _counted(run)
    if given is None:
        given, text = run.document(), run.job_text()
    learner = learner_for(statistics.schema, given)
    learner.merge(statistics)
    return Model(learner, str(run.ledger), about, given, text)


def _counted(run: RunFolder) -> tuple[Statistics, About]:
    """Return all that a ledger has counted up to its last closed round."""
    with LedgerReader.open(run.ledger) as ledger:
        total, closed, version = ledger.total(), ledger.closed_rounds(), ledger.last_version()
    if total is None:
        raise BadInput(f"{run.ledger} has no model yet: no round was closed; wait for one")
    statistics = Statistics.from_bytes(total, max_bytes=files.MAX_BYTES)
    number = closed[-1].number if closed else None
    return statistics, About(number, version.number if version else None)


def statistics_from(path: str | Path, learner: Learner) -> Statistics:
    """Return the statistics of a saved model or a run, for a learner that goes on from them."""
    place = Path(path)
    if _is_run(place):
        statistics = _counted(RunFolder.at(place))[0]
    else:
        data = files.read(place).section("statistics")
        statistics = Statistics.from_bytes(data, max_bytes=files.MAX_BYTES)
    try:
        learner.schema.require_same(statistics.schema)
    except Incompatible as error:
        raise Incompatible(f"{place} can not be gone on from: {error}") from None
    return statistics


def export_model(model: Model, out: Path, *, force: bool = False) -> None:
    """Write a model to a file that `dealfl.learners.load` opens; its job goes with it."""
    require_free(out, force=force)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
        model.learner.save(Path(folder) / "learner")
        saved = files.read(Path(folder) / "learner")
    sections = dict(saved.sections) | {_ABOUT: msgspec.json.encode(model.about)}
    if model.job_text:
        sections[_JOB] = model.job_text.encode()
    files.write(out, saved.learner, saved.settings, sections)


def require_free(out: Path, *, force: bool) -> None:
    """Refuse to write over a file, or into a folder that is not there."""
    if not out.parent.is_dir():
        raise BadInput(f"{out}: there is no folder {out.parent}; make it first")
    if out.is_dir():
        raise BadInput(f"{out} is a folder; name a file")
    if out.exists() and not force:
        raise BadInput(f"{out} is there already; give --force to write over it, or another name")
