"""A model as plain numpy arrays, for a notebook: `numpy.load(file, allow_pickle=False)`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from dealfl.jobs import Document, read_source
from dealfl.jobs.sources import CsvSource
from dealfl.learners import Arrays, RowLearner
from dealfl.runs.models import Model, require_free

__all__ = ["arrays_of", "feature_names", "save_arrays"]


def arrays_of(model: Model) -> Arrays:
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
    names = feature_names(model.document)
    if isinstance(learner, RowLearner) and names and len(names) == learner.n_features:
        found["feature_names"] = np.array(names)
    return {**found, **learner.derived_arrays()}


def feature_names(document: Document | None) -> list[str]:
    """Return the names of the features that a job's [source] gives; a word's is column=word."""
    if document is None or "features" in document.tables or "source" not in document.tables:
        return []
    source = read_source(document)
    return source.feature_names if isinstance(source, CsvSource) else []


def save_arrays(model: Model, out: Path, *, force: bool = False) -> list[str]:
    """Write the arrays to a file, completely or not at all; return their names."""
    require_free(out, force=force)
    arrays = arrays_of(model)
    handle, draft = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        Path(draft).replace(out)
    finally:
        Path(draft).unlink(missing_ok=True)
    return sorted(arrays)
