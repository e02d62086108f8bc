"""The text of a job file, with comments that say what may be changed and what is fixed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dealfl.jobs.proposals.proposal import TableProposal
from dealfl.jobs.sources.columns import Bounded, WordColumn
from dealfl.jobs.toml_text import toml_key, toml_value

__all__ = ["Sizes", "feature_lines", "job_text", "table_lines"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the fleet is, in proportion to the data."""

    workers: int
    rounds: int
    per_round: int

    @classmethod
    def fitting(cls, examples: int, most: int, workers: int, rounds: int) -> Sizes:
        """Return the sizes for so many examples; 0 workers or rounds means: propose some.

        >>> Sizes.fitting(1000, most=1000, workers=0, rounds=0)
        Sizes(workers=20, rounds=10, per_round=2)
        """
        count = workers or max(2, min(20, examples // 25, most))
        long = rounds or 10
        return cls(count, long, max(1, math.ceil(0.4 * examples / count / long)))


def job_text(
    name: str, learner: str, source: Sequence[str], features: Sequence[str], sizes: Sizes,
    by_owner: bool,
) -> str:  # fmt: skip
    """Return a whole job file."""
    partition = '"by_owner"     # an owner\'s rows stay on one device' if by_owner else '"uniform"'
    return "\n".join(
        [
            f"# A job made by `dealfl job init` for {name}. Every key: docs/jobs.md",
            "# What shapes the statistics - columns, bounds, words, classes, items, feature maps -",
            "# is fixed from here on: whoever changes it begins a new model.",
            "",
            "[job]",
            f"name = {toml_value(name)}",
            f"learner = {toml_value(learner)}",
            'scheme = "deal"             # or original, newfl, incremental',
            'forget_fraction = "0.02"    # an exact decimal, theta in the paper',
            f"rounds = {sizes.rounds}",
            f"workers_per_round = {max(1, math.ceil(sizes.workers / 2))}",
            "",
            "[source]",
            *source,
            "",
            *features,
            "[[devices]]",
            f"count = {sizes.workers}",
            'phone = "nexus"            # what it takes is modelled; `dealfl devices` lists others',
            "",
            "[data]",
            f"partition = {partition}",
            "test_share = 0.2            # no worker ever gets them",
            "",
            "[arrival]",
            'pattern = "each_round"      # or at_once, steady, poisson',
            "initial_share = 0.5",
            f"examples_per_round = {sizes.per_round}",
            "",
        ]
    )


def table_lines(proposal: TableProposal) -> list[str]:
    """Return the lines of a table's target and columns."""
    if proposal.classes:
        lines = [f"classes = {toml_value(proposal.classes)}"]
    else:
        lines = [
            "# the largest magnitude the target can have; rows beyond it are quarantined",
            f"target_bound = {toml_value(proposal.target_bound)}",
        ]
    lines += ["", "[source.columns]  # the features; bounds are rounded up from what was seen"]
    lines += [_column_line(found.name, column) for found, column in proposal.features]
    lines += [f"# not {toml_key(n)}: {reason}" for n, reason in proposal.left_out.items()]
    return lines


def _column_line(name: str, column: Bounded | WordColumn) -> str:
    if isinstance(column, WordColumn):
        words = ", ".join(toml_value(word) for word in column.words)
        keys = [f"words = [{words}]"]
    else:
        keys = [f"low = {column.low!r}", f"high = {column.high!r}"]
        if column.date:
            keys.append("date = true")
    if column.missing != "quarantine":
        keys.append(f"missing = {toml_value(column.missing)}")
    return f"{toml_key(name)} = {{ {', '.join(keys)} }}"


def feature_lines(proposal: TableProposal) -> list[str]:
    """Return the section [features] that suits the learner; nothing for the raw columns."""
    limits = [pair for _, column in proposal.features for pair in column.limits]
    wide = [place for place, pair in enumerate(limits) if pair != (0.0, 1.0)]
    low, high = ([pair[side] for pair in limits] for side in (0, 1))
    if proposal.learner == "naive_bayes" and wide:
        return [
            "[features]  # naive Bayes counts: numbers are counted by the bin they fall into",
            'map = "bins"',
            f"columns = {toml_value(wide)}",
            f"low = {toml_value([low[place] for place in wide])}",
            f"high = {toml_value([high[place] for place in wide])}",
            "bins = 16",
            "",
        ]
    if proposal.learner == "neighbors" and wide:
        return [
            "[features]  # distances: every column counts alike, whatever its unit",
            'map = "thermometer"',
            f"low = {toml_value(low)}",
            f"high = {toml_value(high)}",
            "levels = 8",
            "",
        ]
    return []
