"""Export of models: a file for `learners.load`, or arrays for `numpy.load`."""

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
    """Return the derived model and its integer statistics as arrays.

    Parameters
    ----------
    model : Model
        A model.

    Returns
    -------
    dict of str to ndarray
        Arrays by name. A statistic wider than 64 bits is high · 2³² + value.
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
    """Return the names of the features in [source] of a job; a word is named column=word."""
    if document is None or "features" in document.tables or "source" not in document.tables:
        return []
    source = read_source(document)
    return source.feature_names if isinstance(source, CsvSource) else []


def save_arrays(model: Model, out: Path, *, force: bool = False) -> list[str]:
    """Write the arrays of a model to an .npz file, atomically.

    Parameters
    ----------
    model : Model
        A model.
    out : Path
        File to write.
    force : bool, default False
        Whether to replace an existing file.

    Returns
    -------
    list of str
        Names of the arrays.

    Raises
    ------
    BadInput
        If the file exists and `force` is False, or its folder does not exist.
    """
    require_free(out, force=force)
    arrays, content = model_arrays(model), io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    replace_file(out, content.getvalue())
    return sorted(arrays)


def export_model(model: Model, out: Path, *, force: bool = False) -> None:
    """Write a model and its job to a file for `dealfl.learners.load`, atomically.

    Parameters
    ----------
    model : Model
        A model.
    out : Path
        File to write.
    force : bool, default False
        Whether to replace an existing file.

    Raises
    ------
    BadInput
        If the file exists and `force` is False, or its folder does not exist.
    """
    require_free(out, force=force)
    sections = {ABOUT_SECTION: msgspec.json.encode(model.about)}
    if model.job_text:
        sections[JOB_SECTION] = model.job_text.encode()
    model.learner.save(out, sections)


def require_free(out: Path, *, force: bool) -> None:
    """Check that a file can be written.

    Parameters
    ----------
    out : Path
        File to write.
    force : bool
        Whether an existing file can be replaced.

    Raises
    ------
    BadInput
        If the file exists and `force` is False, or its folder does not exist.
    """
    if not out.parent.is_dir():
        raise BadInput(f"{out}: the folder {out.parent} does not exist; create it first")
    if out.is_dir():
        raise BadInput(f"{out} is a folder; give the name of a file")
    if out.exists() and not force:
        raise BadInput(f"{out} already exists; use --force to replace it, or another name")
