"""A proposed job: roles and limits of the columns, and the commented text of the job file."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dealfl.data.readers import Layout
from dealfl.data.sources import Bounded, WordColumn
from dealfl.errors import BadInput
from dealfl.jobs.proposals.survey import Found
from dealfl.learners import LEARNERS, learners_for
from dealfl.settings import nearest, toml_key, toml_value

Feature = Bounded | WordColumn
Ask = Callable[[str, Sequence[str], str, bool], str]
"""Function of a role, column names, a proposal and whether a column is required; returns a name."""

# -- roles --------------------------------------------------------------------------------------

_NAMES = {
    "target": "target label class y outcome response",
    "owner": "user username owner customer visitor person patient household member subject device",
    "item": "item movie film product song track book isbn article page",
    "rating": "rating score stars",
    "time": "time timestamp date datetime when ts",
}


NO_COLUMN = "none"  # no column has the role, unless a column has this name


@dataclass(frozen=True, slots=True)
class Roles:
    """The columns with a role; '' if no column has it.

    In `Wishes`, '' leaves the role open, and "none" means that no column has it.
    """

    target: str = ""
    owner: str = ""
    time: str = ""
    item: str = ""
    rating: str = ""


def guess_column(role: str, names: Sequence[str]) -> str:
    """Return the one column whose name indicates a role; '' if none or several do.

    Examples
    --------
    >>> guess_column("owner", ["Customer ID", "age"]), guess_column("owner", ["user", "device"])
    ('Customer ID', '')
    """
    known = _NAMES[role].split()
    wanted = {*known, *(f"{word}id" for word in known)} - {"yid", "classid"}
    found = [name for name in names if re.sub(r"[^a-z0-9]", "", name.lower()) in wanted]
    return found[0] if len(found) == 1 else ""


def require_known(roles: Roles, columns: Sequence[Found]) -> None:
    """Reject roles for columns that the file lacks, and two roles for one column."""
    names = [column.name for column in columns]
    seen: dict[str, str] = {}
    for role in ("target", "owner", "time", "item", "rating"):
        name = getattr(roles, role)
        if name == NO_COLUMN and name not in names and role != "target":
            continue
        if name and name not in names:
            raise BadInput(f"--{role} {name}: no such column; {nearest(name, names)}")
        if name and name in seen:
            raise BadInput(f"--{role} {name}: it is already the {seen[name]}; choose another")
        seen[name] = role


def ask_roles(roles: Roles, columns: list[Found], order: Sequence[str], ask: Ask) -> Roles:
    """Return the roles; `ask` decides those left open. A role that ends in ! is required."""
    for word in order:
        role = word.rstrip("!")
        if getattr(roles, role) == NO_COLUMN and not any(c.name == NO_COLUMN for c in columns):
            if word != role:
                raise BadInput(f"--{role} {NO_COLUMN}: a job needs this column; name one")
            roles = replace(roles, **{role: ""})
            continue
        if getattr(roles, role):
            continue
        taken = {roles.target, roles.owner, roles.time, roles.item, roles.rating}
        free = [column for column in columns if column.name not in taken and column.values]
        names = [column.name for column in free]
        if role == "time":
            free = [column for column in free if column.kind in ("number", "date")]
        guess = guess_column(role, [column.name for column in free])
        if role == "time" and not guess:
            dates = [column.name for column in free if column.kind == "date"]
            guess = dates[0] if len(dates) == 1 else ""
        roles = replace(roles, **{role: ask(role, names, guess, word != role)})
    require_known(roles, columns)
    _require_readable_time(roles, columns)
    return roles


def _require_readable_time(roles: Roles, columns: Sequence[Found]) -> None:
    for column in columns:
        if column.name == roles.time and column.kind not in ("number", "date"):
            raise BadInput(
                f"--time {column.name}: {column.stray!r} is neither a number nor an ISO date such "
                f"as 2024-12-31; convert the column, or give --time {NO_COLUMN}"
            )


# -- features and target ------------------------------------------------------------------------

_MOST_WORDS = 64
_MOST_CLASSES = 100
_FEW_NUMBERS = 20
_LARGEST = float(2**53)  # whole numbers above it are not exact in float64
_SMALLEST = 2.0**-40
_NO_WORD = "(none)"
_IDENTIFIER = re.compile(r"(.*[ _-])?(id|index|key|nr|no|number|uuid|guid)|[a-z]+Id", re.ASCII)


@dataclass(frozen=True, slots=True)
class Target:
    """The valid values of the target, classes or a bounded number, and the learner for it."""

    classes: tuple[str | float, ...]
    bound: float
    learner: str


def _round_up(magnitude: float) -> float:
    """Return the next power of two.

    >>> _round_up(5.0), _round_up(0.3), _round_up(64.0)
    (8.0, 0.5, 64.0)
    """
    return 2.0 ** math.ceil(math.log2(max(magnitude, _SMALLEST)))


def widen_limits(low: float, high: float) -> tuple[float, float]:
    """Return generous limits: 0 where a sign never occurs, else a power of two.

    >>> widen_limits(0.0, 5.0), widen_limits(-3.0, 5.0), widen_limits(-3.0, -1.0)
    ((0.0, 8.0), (-8.0, 8.0), (-4.0, 0.0))
    """
    bound = _round_up(max(abs(low), abs(high)))
    return (-bound if low < 0 else 0.0, bound if high > 0 else 0.0)


def propose_features(
    columns: Sequence[Found], roles: Roles, *, keep: bool = False
) -> tuple[dict[str, Feature], dict[str, str]]:
    """Return the columns that are features, and why others are not; BadInput if none is.

    With `keep`, columns of equal numbers and columns that number the rows are features, too.
    """
    features: dict[str, Feature] = {}
    left_out: dict[str, str] = {}
    for column in columns:
        if column.name in (roles.target, roles.owner, roles.time):
            continue
        proposed = _feature(column, keep)
        if isinstance(proposed, str):
            left_out[column.name] = proposed
        else:
            features[column.name] = proposed
    if not features:
        reasons = "; ".join(f"{name!r}: {reason}" for name, reason in left_out.items())
        raise BadInput(
            f"no column is left as a feature to predict {roles.target!r} "
            f"({reasons or 'it is the only column'}); choose another --target, or add columns"
        )
    return features, left_out


def propose_target(target: Found, learner: str) -> Target:
    """Return the target that a column describes; BadInput states why it cannot be the target."""
    classes = _classes(target, learner)
    if classes:
        return Target(classes, 0.0, learner or learners_for("classification")[0])
    return Target((), _target_bound(target), learner or learners_for("regression")[0])


def _classes(target: Found, learner: str) -> tuple[str | float, ...]:
    """Return the classes; an empty tuple for regression."""
    if target.is_constant:
        raise BadInput(
            f"the target {target.name!r} has {'only one value' if target.values else 'no values'}, "
            "so nothing can be learned; choose another --target"
        )
    regression = learner in learners_for("regression")
    if target.kind == "number" and (regression or not learner):
        few = target.whole and not target.overflown and target.distinct <= _FEW_NUMBERS
        if learner or not few or target.distinct > target.values / 2:
            return ()
    if regression or target.kind == "date":
        raise BadInput(
            f"the target {target.name!r} holds {target.kind}s, which cannot be predicted as "
            "numbers; choose another --target or --learner"
        )
    if target.overflown or target.distinct > _MOST_CLASSES:
        raise BadInput(
            f"the target {target.name!r} has {target.distinct:,} different values; the limit for "
            f"classes is {_MOST_CLASSES}: choose another --target"
        )
    if target.kind == "number":
        return tuple(sorted({_label(word) for word in target.words}))
    return tuple(sorted(target.words))


def _label(word: str) -> int | float:
    value = float(word.replace(",", "."))
    return int(value) if value == int(value) else value


def _target_bound(target: Found) -> float:
    magnitude = max(abs(target.low), abs(target.high))
    if magnitude > _LARGEST:
        raise BadInput(
            f"the target {target.name!r} reaches {magnitude:g}, which is too large to be exact; "
            "divide the column, or take its logarithm"
        )
    return _round_up(magnitude)


def _feature(column: Found, keep: bool) -> Feature | str:
    """Return the column as a feature, or the reason why it cannot be one."""
    kept = keep and column.kind == "number"
    if column.kind == "empty":
        return "it is empty"
    if column.is_constant and not kept:
        return "it is the same in every row"
    if column.kind == "text":
        return _text(column)
    if column.kind == "number" and not kept and _is_identifier(column):
        return "it numbers the rows"
    if max(abs(column.low), abs(column.high)) > _LARGEST:
        return f"it reaches {max(abs(column.low), abs(column.high)):g}: divide it to use it"
    low, high = widen_limits(column.low, column.high)
    high = high if low < high else 1.0  # a column of zeros
    fill = column.typical if column.missing else "quarantine"
    return Bounded(low=low, high=high, date=column.kind == "date", missing=fill)


def _text(column: Found) -> Feature | str:
    if column.mostly(column.other_dates):
        return f"its dates are not in ISO 8601: write {column.stray!r} like 2024-12-31 to use it"
    words = _words(column)
    if isinstance(words, str) and column.mostly(column.decorated):
        return f"its numbers contain other characters: write {column.stray!r} as a number to use it"
    return words


def _words(column: Found) -> Feature | str:
    if not column.overflown and column.distinct == column.values:
        return "every row has a different text, like a name"
    if column.overflown or column.distinct > _MOST_WORDS:
        return f"it has more than {_MOST_WORDS} different texts"
    if not column.missing:
        return WordColumn(words=tuple(sorted(column.words)))
    return WordColumn(words=(_NO_WORD, *sorted(column.words)), missing=_NO_WORD)


def _is_identifier(column: Found) -> bool:
    every_row_differs = column.overflown or column.distinct == column.rows
    if not column.whole or not every_row_differs or column.missing:
        return False
    consecutive = column.high - column.low + 1 == column.rows and column.rows > 2
    named = _IDENTIFIER.fullmatch(column.name) or _IDENTIFIER.fullmatch(column.name.lower())
    return consecutive or bool(named)


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
    name: str,
    learner: str,
    source: Sequence[str],
    features: Sequence[str],
    sizes: Sizes,
    by_owner: bool,
) -> str:
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
