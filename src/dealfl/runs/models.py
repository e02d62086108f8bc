"""Models of runs and of files: opened, described, exported."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dealfl.errors import BadBytes, BadInput, Incompatible, argument, unreadable
from dealfl.exact import Schema
from dealfl.jobs import Document, plan_without_data, read_source
from dealfl.learners import Arrays, Learner, RowLearner, SavedLearner, Statistics, from_schema, load
from dealfl.runs.folder import RunFolder
from dealfl.server import LedgerReader
from dealfl.storage import replace_file

_SQLITE = b"SQLite format 3\x00"
_JOB, _ABOUT = "job", "about"  # sections of a saved model


class About(msgspec.Struct, frozen=True):
    """The round after which a model was taken from a run, and the published version then."""

    round: int | None = None
    version: int | None = None
    published_digest: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """A trained learner, with its job if that is known."""

    learner: Learner
    origin: str
    about: About
    document: Document | None = None
    job_text: str = ""

    def info(self) -> dict[str, Any]:
        """Return learner, settings, number of examples, digest and sizes in bytes, for JSON."""
        statistics, published = self.learner.statistics, self.about.published_digest
        return {
            "origin": self.origin,
            "learner": self.learner.name,
            "settings": self.learner.settings,
            "examples": self.learner.example_count,
            "digest": statistics.digest(),
            "round": self.about.round,
            "version": self.about.version,
            "changed_since_version": statistics.digest() != published if published else None,
            "job": None if self.document is None else self.document.name,
            "non_zeros": {name: len(statistics[name]) for name in statistics},
            "memory_bytes": statistics.nbytes,
            "stored_bytes": len(statistics.to_bytes()),
        }


def open_model(path: str | Path, job: str | Path | None = None) -> Model:
    """Open the model of a saved learner, a run folder or a ledger."""
    path = Path(path)
    given = None if job is None else Document.read(job)
    text = "" if given is None else given.text()
    if _is_run(path):
        return _open_run(RunFolder.at(path), given, text)
    return _open_file(path, given, text)


def _is_run(path: Path) -> bool:
    if path.is_dir():
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise unreadable(path, error, "give a saved model or a run folder") from None


def _open_file(path: Path, given: Document | None, text: str) -> Model:
    saved = SavedLearner.read(path)
    if given is None and _JOB in saved.sections:
        text = saved.sections[_JOB].decode("utf-8", "replace")
        given = Document.parse(text, f"the job in {path}", path.parent)
    try:
        about = msgspec.json.decode(saved.sections.get(_ABOUT, b"{}"), type=About)
    except msgspec.MsgspecError as error:
        raise BadBytes(f"{path}: section {_ABOUT!r} cannot be read: {error}") from None
    return Model(load(path), str(path), about, given, text)


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
        statistics, closed = ledger.total(), ledger.closed_rounds()
        version = ledger.last_version()
    if statistics is None:
        raise BadInput(f"{run.ledger} has no model yet; wait until the first round is closed")
    number = closed[-1].number if closed else None
    if version is None:
        return statistics, About(number)
    return statistics, About(number, version.number, version.digest)


def read_statistics(path: str | Path, learner: Learner) -> Statistics:
    """Return the statistics of a saved model or a run, to start a learner that they must fit."""
    path = Path(path)
    if _is_run(path):
        statistics = _read_total(RunFolder.at(path))[0]
    else:
        statistics = SavedLearner.read(path).statistics
    try:
        learner.schema.require_same(statistics.schema)
    except Incompatible as error:
        raise Incompatible(f"the run cannot start from {path}: {error}") from None
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


# -- exports ------------------------------------------------------------------------------------


def model_arrays(model: Model) -> Arrays:
    """Return model and published statistics as arrays; a wide one is high · 2³² + value."""
    learner, statistics = model.learner, model.learner.publish()
    arrays: Arrays = {"learner": np.array(learner.name), "digest": np.array(statistics.digest())}
    for name in statistics:
        entries = statistics[name]
        arrays[f"statistics_{name}_index"] = entries.indices
        arrays[f"statistics_{name}_value"] = entries.values.low
        if entries.values.high is not None:
            arrays[f"statistics_{name}_high"] = entries.values.high
    tables = {} if model.document is None else model.document.tables
    if model.document is not None and "source" in tables and "features" not in tables:
        names = read_source(model.document).feature_names
        if isinstance(learner, RowLearner) and names and len(names) == learner.n_features:
            arrays["feature_names"] = np.array(names)
    return {**arrays, **learner.derived_arrays()}


def save_arrays(model: Model, out: Path, *, force: bool = False) -> list[str]:
    """Write the arrays of a model to an .npz file, atomically."""
    require_free(out, force=force)
    arrays, content = model_arrays(model), io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    replace_file(out, content.getvalue())
    return sorted(arrays)


def export_model(model: Model, out: Path, *, force: bool = False) -> None:
    """Write a model and its job to a file for `dealfl.learners.load`, atomically.

    The file holds the published form of the model: no examples, and of neighbours no bucket with
    fewer than `min_bucket` of them.
    """
    require_free(out, force=force)
    learner, about = _published(model.learner), model.about
    if about.published_digest == model.learner.digest():  # the same version in another form
        about = msgspec.structs.replace(about, published_digest=learner.digest())
    sections = {_ABOUT: msgspec.json.encode(about)}
    if model.job_text:
        sections[_JOB] = model.job_text.encode()
    learner.save(out, sections)


def _published(learner: Learner) -> Learner:
    """Return a learner that holds what a published model holds."""
    statistics, rows = learner.publish(), learner if isinstance(learner, RowLearner) else None
    if rows is None and statistics.digest() == learner.digest():
        return learner
    published = type(learner)(**learner.settings)
    published.merge(statistics)
    if rows is not None and rows.feature_names and isinstance(published, RowLearner):
        published.name_features(rows.feature_names)
    return published


def require_free(out: Path, *, force: bool) -> None:
    """Check that a file can be written."""
    if not out.parent.is_dir():
        raise BadInput(f"{out}: the folder {out.parent} does not exist; create it first")
    if out.is_dir():
        raise BadInput(f"{out} is a folder; give the name of a file")
    if out.exists() and not force:
        raise BadInput(
            f"{out} already exists; use {argument('force', True)} to replace it, or another name"
        )
