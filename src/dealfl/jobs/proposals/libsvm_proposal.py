"""What a job file should fix of a LIBSVM file."""

from __future__ import annotations

import math
from pathlib import Path

from dealfl.errors import BadInput
from dealfl.jobs.proposals.proposal import limits_of, propose_table
from dealfl.jobs.proposals.roles import Roles
from dealfl.jobs.proposals.survey import Found
from dealfl.jobs.sources.columns import Cells
from dealfl.jobs.sources.libsvm_source import libsvm_chunks, pairs_of
from dealfl.jobs.sources.watching import watched
from dealfl.jobs.toml_text import toml_value

__all__ = ["libsvm_lines", "survey_libsvm"]


def survey_libsvm(path: Path, encoding: str) -> tuple[Found, dict[int, tuple[float, float]]]:
    """Return what the labels are, and the lowest and highest value of each feature."""
    label, limits = Found("label"), dict[int, tuple[float, float]]()
    for chunk in watched(libsvm_chunks(path, encoding), path):
        good = []
        for words in chunk.rows:
            try:
                pairs = pairs_of(words[1:])
            except ValueError:
                continue  # set aside when the file is read
            good.append(words[0])
            for index, value in pairs:
                low, high = limits.get(index, (math.inf, -math.inf))
                limits[index] = (min(low, value), max(high, value))
        label.add(good, Cells())
    if not limits:
        raise BadInput(f"{path}: no row has a feature; a row is a label, then index:value pairs")
    return label, limits


def libsvm_lines(
    label: Found, limits: dict[int, tuple[float, float]], learner: str
) -> tuple[list[str], str]:
    """Return the lines of labels and features, and the learner."""
    lowest = min(low for low, _ in limits.values())
    highest = max(high for _, high in limits.values())
    low, high = limits_of(min(lowest, 0.0), max(highest, 0.0))
    if low == high:
        raise BadInput("every feature is 0: there is nothing to learn from")
    anything = Found("features", rows=2, numbers=2, whole=False, low=0.0, high=1.0)
    anything.words = {"0": None, "1": None}
    proposal = propose_table([label, anything], Roles(target=label.name), learner)
    lines = [
        f"n_features = {max(limits)}",
        f"low = {toml_value(low)}      # of every feature, rounded up from what was seen;",
        f"high = {toml_value(high)}     # rows beyond are quarantined",
    ]
    if proposal.classes:
        lines.append(f"classes = {toml_value(proposal.classes)}")
    else:
        lines.append(f"target_bound = {toml_value(proposal.target_bound)}")
    return lines, proposal.learner
