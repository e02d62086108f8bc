"""The text of a job file, with comments on what can be changed and what is fixed."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dealfl.data.readers import Layout
from dealfl.data.sources import WordColumn
from dealfl.errors import BadInput
from dealfl.jobs.proposals.proposal import Feature, Roles, Target, widen_limits
from dealfl.jobs.proposals.survey import Found
from dealfl.learners import LEARNERS
from dealfl.settings import toml_key, toml_value

_ARRIVALS_PER_HOUR = 60
_HOUR_S = 3600
_LONGEST_S = 150 * _HOUR_S  # a job ends after max_h, 168 hours by default
_TEST_SHARE = 0.2
_LATER_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of a fleet, in proportion to the data."""

    workers: int
    rounds: int
    per_hour: float
    every_s: int = _HOUR_S

    @classmethod
    def fitting(
        cls, examples: int, most: int, workers: int, rounds: int, arriving: int = 0
    ) -> Sizes:
        """Return sizes that suit a number of examples.

        Half of the examples are there at the start, and most of the others arrive until the last
        round.

        Examples
        --------
        >>> Sizes.fitting(1000, most=1000, workers=0, rounds=0)
        Sizes(workers=20, rounds=10, per_hour=1.6, every_s=3600)
        """
        count = workers or max(2, min(20, examples // 25, most))
        long = rounds or 10
        every_s = max(1, min(_HOUR_S, _LONGEST_S // long))
        hours = long * every_s / _HOUR_S
        rate = _LATER_SHARE * (1 - _TEST_SHARE) * (arriving or examples) / count / hours
        return cls(count, long, float(f"{rate:.2g}"), every_s)


def draft_job(
    name: str, learner: str, source: Sequence[str], features: Sequence[str], sizes: Sizes,
    by_owner: bool,
) -> str:  # fmt: skip
    """Return the text of a job file."""
    partition = '"by_owner"     # the rows of an owner stay on one device'
    partition = partition if by_owner else '"uniform"'
    batch = round(sizes.per_hour / _ARRIVALS_PER_HOUR)  # an app hands over what it has gathered
    return "\n".join(
        [
            f"# A job made by `dealfl job init` for {name}. Every key: docs/jobs.md",
            "# Columns, bounds, words, classes, items and feature maps determine the statistics.",
            "# They are fixed: changing one of them starts a new model.",
            "",
            "[job]",
            f"name = {toml_value(name)}",
            f"learner = {toml_value(learner)}",
            'scheme = "deal"             # or original, newfl, incremental',
            'forget_fraction = "0.02"    # an exact decimal, theta in the paper',
            f"rounds = {sizes.rounds}",
            f"workers_per_round = {max(1, math.ceil(sizes.workers / 2))}",
            f"round_every_s = {sizes.every_s}        # shortest time between two rounds",
            "",
            "[source]",
            *source,
            "",
            *features,
            "[[devices]]",
            f"count = {sizes.workers}",
            'phone = "nexus"            # its energy is modelled; `dealfl devices` lists others',
            "",
            "[data]",
            f"partition = {partition}",
            f"test_share = {_TEST_SHARE}            # examples that no worker receives",
            "",
            "[arrival]",
            'pattern = "poisson"         # or at_once, steady, each_round',
            "initial_share = 0.5",
            f"examples_per_hour = {sizes.per_hour:g}     # per device, on average",
            *([f"batch = {batch}                  # examples that arrive together"] * (batch > 1)),
            "",
        ]
    )


def draft_source(path: Path, folder: Path, chosen: str, layout: Layout, roles: Roles) -> list[str]:
    """Return the lines that state the path and the layout of the file."""
    lines = [f"file = {toml_value(_beside(path, folder))}", f"format = {toml_value(chosen)}"]
    if chosen != "libsvm":
        lines.append(f"delimiter = {toml_value(layout.delimiter)}")
        lines += [f"header = {toml_value(layout.header)}"] if not layout.header else []
        lines += ["decimal_comma = true"] if layout.decimal_comma else []
        lines += [f"skip_lines = {layout.skip_lines}"] if layout.skip_lines else []
    if layout.encoding != "utf-8":
        lines.append(f"encoding = {toml_value(layout.encoding)}")
    for role in ("target", "owner", "item", "rating", "time"):
        if getattr(roles, role):
            lines.append(f"{role} = {toml_value(getattr(roles, role))}")
    return lines


def _beside(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()


def draft_table(
    target: Target, features: Mapping[str, Feature], left_out: Mapping[str, str]
) -> list[str]:
    """Return the lines that describe the target and the columns of a table."""
    lines = _target_lines(target)
    lines += ["", "[source.columns]  # the features; bounds are rounded up from the data"]
    lines += [_column_line(name, column) for name, column in features.items()]
    return lines + [f"# not {toml_key(n)}: {reason}" for n, reason in left_out.items()]


def _target_lines(target: Target) -> list[str]:
    if target.classes:
        return [f"classes = {toml_value(target.classes)}"]
    return [
        "# largest magnitude of the target; rows beyond it are quarantined",
        f"target_bound = {toml_value(target.bound)}",
    ]


def _column_line(name: str, column: Feature) -> str:
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


def draft_features(learner: str, features: Mapping[str, Feature]) -> list[str]:
    """Return the section [features] that suits the learner; no lines for the raw columns."""
    limits = [pair for column in features.values() for pair in column.limits]
    wide = [place for place, pair in enumerate(limits) if pair != (0.0, 1.0)]
    low, high = ([pair[side] for pair in limits] for side in (0, 1))
    suited = LEARNERS[learner].feature_map if wide else None
    if suited == "bins":
        return [
            "[features]  # numbers are counted by bin",
            'map = "bins"',
            f"columns = {toml_value(wide)}",
            f"low = {toml_value([low[place] for place in wide])}",
            f"high = {toml_value([high[place] for place in wide])}",
            "bins = 16",
            "",
        ]
    if suited == "thermometer":
        return [
            "[features]  # every column has the same weight in any unit",
            'map = "thermometer"',
            f"low = {toml_value(low)}",
            f"high = {toml_value(high)}",
            "levels = 8",
            "",
        ]
    return []


# -- LIBSVM -------------------------------------------------------------------------------------


def draft_libsvm(target: Target, limits: Mapping[int, tuple[float, float]]) -> list[str]:
    """Return the lines that describe labels and features."""
    lowest = min(low for low, _ in limits.values())
    highest = max(high for _, high in limits.values())
    low, high = widen_limits(min(lowest, 0.0), max(highest, 0.0))
    if low == high:
        raise BadInput("every feature is 0, so nothing can be learned; check the file")
    return [
        f"n_features = {max(limits) + 1}",
        f"low = {toml_value(low)}      # of every feature, rounded up from the data;",
        f"high = {toml_value(high)}     # rows beyond are quarantined",
        *_target_lines(target),
    ]


# -- ratings ------------------------------------------------------------------------------------

_LIKED_SHARE = 0.6
_SPARSE = 4
_FEW_ITEMS = 10_000


def draft_ratings(
    columns: Sequence[Found], roles: Roles, items: list[str] | None = None
) -> list[str]:
    """Return the lines that describe items and liked ratings; BadInput if a column is unfit."""
    found = {column.name: column for column in columns}
    for role in ("owner", "item", "rating"):
        name = getattr(roles, role)
        if name and not found[name].values:
            raise BadInput(f"the {role} column {name!r} is empty; choose another --{role}")
    lines = []
    if roles.rating:
        rating = found[roles.rating]
        if rating.kind != "number":
            raise BadInput(
                f"the rating column {rating.name!r} holds {rating.kind}s; choose another --rating"
            )
        lines.append(f"liked_from = {_liked_from(rating)!r}   # lowest rating of a liked item")
    return lines + (_item_lines(found[roles.item]) if items is None else items)


def _liked_from(rating: Found) -> float:
    """Return a rating that occurs in the upper part of the range."""
    mark = rating.low + _LIKED_SHARE * (rating.high - rating.low)
    given = [value for value in rating.sample if value >= mark]
    return min(given, default=mark)


def _item_lines(item: Found) -> list[str]:
    numbered = item.kind == "number" and item.whole and item.low >= 0 and not item.texts
    if numbered and item.high - item.low < max(_SPARSE * item.distinct, _FEW_ITEMS):
        return [
            "# all possible items; rows with others are quarantined",
            f"first_item = {int(item.low)}",
            f"last_item = {int(item.high)}",
        ]
    if item.overflown:
        raise BadInput(
            f"the item column {item.name!r} has more than {item.distinct - 1:,} different texts; "
            "number the items (0, 1, 2, …) and use the numbers"
        )
    words: Sequence[int | str] = sorted(item.words)
    if numbered:
        words = sorted({int(float(word)) for word in item.words})
    return [
        "# all possible items; rows with others are quarantined",
        f"items = {toml_value(words)}",
    ]
