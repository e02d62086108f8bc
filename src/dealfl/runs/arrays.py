"""A model as plain numpy arrays, for a notebook: `numpy.load(file, allow_pickle=False)`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.jobs import Document
from dealfl.jobs.sources.columns import WordColumn, read_column
from dealfl.learners import Learner
from dealfl.learners.pairs import items_of
from dealfl.runs.models import Model, require_free

__all__ = ["arrays_of", "feature_names", "save_arrays"]

Arrays = dict[str, NDArray[Any]]


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
    if "classes" in learner.settings:
        found["classes"] = np.array(learner.settings["classes"])
    names = feature_names(model.document)
    if names and len(names) == learner.settings.get("n_features"):
        found["feature_names"] = np.array(names)
    derive = _DERIVED.get(learner.name)
    return found if derive is None else {**found, **derive(learner)}


def feature_names(document: Document | None) -> list[str]:
    """Return the names of the features that a job's [source] gives; a word's is column=word."""
    if document is None or "features" in document.tables:
        return []
    source = document.tables.get("source", {})
    columns = source.get("columns", {}) if isinstance(source, Mapping) else {}
    names: list[str] = []
    for name, table in columns.items():
        column = read_column(document, name, table)
        words = column.words if isinstance(column, WordColumn) else ()
        names += [f"{name}={word}" for word in words] or [name]
    return names


def _weights(learner: Any) -> Arrays:  # noqa: ANN401
    return {"weights": learner.weights, "bias": np.asarray(learner.bias)}


def _bayes(learner: Any) -> Arrays:  # noqa: ANN401
    return {
        "class_counts": _dense(learner, "counts"),
        "log_priors": learner.log_priors,
        "log_probabilities": learner.log_probabilities,
    }


def _votes(learner: Any) -> Arrays:  # noqa: ANN401
    votes, classes = learner.statistics["votes"], len(learner.settings["classes"])
    buckets = votes.indices // classes
    vote_bits = learner.settings["vote_bits"]
    return {
        "class_counts": _dense(learner, "counts"),
        "vote_table": buckets >> vote_bits,
        "vote_bucket": buckets & ((1 << vote_bits) - 1),
        "vote_class": votes.indices % classes,
        "vote_count": votes.values.low,
    }


def _similarities(learner: Any) -> Arrays:  # noqa: ANN401
    items, pairs = _dense(learner, "items"), learner.statistics["pairs"]
    first, second = items_of(pairs.indices)
    together = pairs.values.low
    return {
        "item_counts": items,
        "pair_first": first,
        "pair_second": second,
        "pair_counts": together,
        "pair_similarities": together / (items[first] + items[second] - together),
    }


_DERIVED: Mapping[str, Callable[[Any], Arrays]] = {
    "tikhonov": _weights,
    "tikhonov_classifier": _weights,
    "naive_bayes": _bayes,
    "neighbors": _votes,
    "personalized_pagerank": _similarities,
}


def _dense(learner: Learner, name: str) -> NDArray[np.int64]:
    size = next(spec.size for spec in learner.schema.arrays if spec.name == name)
    whole = np.zeros(size, dtype=np.int64)
    entries = learner.statistics[name]
    whole[entries.indices] = entries.values.low
    return whole


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
