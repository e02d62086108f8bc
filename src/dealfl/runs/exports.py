"""Models for elsewhere: a file that `learners.load` opens, or arrays that `numpy.load` opens."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import numpy as np

from dealfl.atomic_files import replace_file
from dealfl.errors import BadInput
from dealfl.jobs import Document, read_source
from dealfl.jobs.sources import CsvSource
from dealfl.learners import Arrays, RowLearner
from dealfl.runs.models import ABOUT_SECTION, JOB_SECTION, Model

__all__ = ["export_model", "model_arrays", "require_free", "save_arrays"]


def model_arrays(model: Model) -> Arrays:
    """Return the derived model, and the integers that it was derived from.

    Of statistics too large for 64 bits, a value is high · 2³² + value.
    """
    learner, statistics = model.learner, model.learner.statistics
    found: Arrays = {"learner": np.array(learner.name), "digest": np.array(statistics.digest())}
    for name in statistics:
        entries = statistics[name]
        found[f"statistics_{name}_index"] = entries.indices
        found[f"statistics_{name}_value"] = entries.values.low
        if entries.values.high is not None:
            found[f"statistics_{name}_high"] = entries.values.high
    names = _feature_names(model.document)
    if isinstance(learner, RowLearner) and names and len(names) == learner.n_features:
        found["feature_names"] = np.array(names)
    return {**found, **learner.derived_arrays()}


def _feature_names(document: Document | None) -> list[str]:
    """Return the names of the features that a job's [source] gives; a word's is column=word."""
    if document is None or "features" in document.tables or "source" not in document.tables:
        return []
    source = read_source(document)
    return source.feature_names if isinstance(source, CsvSource) else []


def save_arrays(model: Model, out: Path, *, force: bool = False) -> list[str]:
    """Write the arrays to a file, completely or not at all; return their names."""
    require_free(out, force=force)
    arrays, content = model_arrays(model), io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    replace_file(out, content.getvalue())
    return sorted(arrays)


def export_model(model: Model, out: Path, *, force: bool = False) -> None:
    """Write a model to a file that `dealfl.learners.load` opens; its job goes with it."""
    require_free(out, force=force)
    sections = {ABOUT_SECTION: msgspec.json.encode(model.about)}
    if model.job_text:
        sections[JOB_SECTION] = model.job_text.encode()
    model.learner.save(out, sections)


def require_free(out: Path, *, force: bool) -> None:
    """Refuse to write over a file, or into a folder that does not exist."""
    if not out.parent.is_dir():
        raise BadInput(f"{out}: there is no folder {out.parent}; make it first")
    if out.is_dir():
        raise BadInput(f"{out} is a folder; name a file")
    if out.exists() and not force:
        raise BadInput(f"{out} is there already; give --force to write over it, or another name")
