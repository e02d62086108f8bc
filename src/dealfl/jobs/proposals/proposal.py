"""A first job for a user's own data: examine it, give columns their roles, propose the rest."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from dealfl.data.readers import Layout
from dealfl.data.sources import Bounded, Column, MemoryRows, MemoryTable, WordColumn
from dealfl.errors import BadInput, argument
from dealfl.jobs.proposals.survey import (
    Found,
    Image,
    detect_layout,
    find_image,
    survey,
    survey_libsvm,
)
from dealfl.learners import LEARNERS, learners_for
from dealfl.settings import keys_of, nearest, toml_key, toml_value

Limits = Mapping[int, tuple[float, float]]
Tables = dict[str, Any]
Ask = Callable[[str, Sequence[str], str, bool], str]
"""Function of a role, column names, a proposal and whether a column is required; returns a name."""

# -- roles --------------------------------------------------------------------------------------

_NAMES = {  # words by role
    "target": "target label class y outcome response",
    "owner": "user username owner customer visitor person patient household member subject device",
    "item": "item movie film product song track book isbn article page",
    "rating": "rating score stars grade vote points",
    "time": "time timestamp date datetime when ts",
}
_ROLES = tuple(_NAMES)
# columns that name persons: owners, never features
_PERSONAL = "who name fullname firstname lastname forename surname nickname email emailaddress mail"
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
    words = _NAMES[role].split()
    wanted = {*words, *(f"{word}id" for word in words)} - {"yid", "classid"}
    matches = [name for name in names if _plain(name) in wanted]
    if role == "owner" and not matches:
        return next((name for name in names if names_persons(name)), "")
    return matches[0] if len(matches) == 1 else ""


def names_persons(column: str) -> bool:
    """Return whether a column is called as if it named persons.

    Examples
    --------
    >>> names_persons("Customer Name"), names_persons("E-Mail"), names_persons("car name")
    (True, True, False)
    """
    persons = _NAMES["owner"].split()
    return _plain(column) in {*_PERSONAL.split(), *(f"{person}name" for person in persons)}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def require_known(roles: Roles, columns: Sequence[Found]) -> None:
    """Reject roles for columns that the file lacks, and two roles for one column."""
    names = [column.name for column in columns]
    seen: dict[str, str] = {}
    for role in ("target", "owner", "time", "item", "rating"):
        name = getattr(roles, role)
        if name == NO_COLUMN and name not in names and role != "target":
            continue
        if name and name not in names:
            raise BadInput(f"{argument(role, name)}: no such column; {nearest(name, names)}")
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
        taken = astuple(roles)
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
                f"{argument('time', column.name)}: {column.stray!r} is neither a number nor a date "
                "such as 2024-12-31 or 31.12.2024; convert the column, or give "
                f"{argument('time', NO_COLUMN)}"
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
    columns: Sequence[Found], roles: Roles, *, keep: bool
) -> tuple[dict[str, Column], dict[str, str]]:
    """Return the columns that are features, and why others are not; BadInput if none is.

    With `keep`, columns of equal numbers and columns that number the rows are features, too.
    """
    features: dict[str, Column] = {}
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
            f"({reasons or 'it is the only column'}); choose another {argument('target')}, "
            "or add columns"
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
            f"so nothing can be learned; choose another {argument('target')}"
        )
    regression = learner in learners_for("regression")
    if target.kind == "number" and (regression or not learner):
        few = target.whole and not target.overflown and target.distinct <= _FEW_NUMBERS
        if learner or not few or target.distinct > target.values / 2:
            return ()
    if regression or target.kind == "date":
        raise BadInput(
            f"the target {target.name!r} holds {target.kind}s, which cannot be predicted as "
            f"numbers; choose another {argument('target')} or {argument('learner')}"
        )
    odd = target.mostly(target.decorated) or target.mostly(target.other_dates)
    if odd and target.distinct > _FEW_NUMBERS:
        raise BadInput(
            f"the target {target.name!r} holds values such as {target.stray!r}, which are neither "
            f"numbers nor classes; write them as numbers, or choose another {argument('target')}"
        )
    if target.overflown or target.distinct > _MOST_CLASSES:
        raise BadInput(
            f"the target {target.name!r} has {target.distinct:,} different values; the limit for "
            f"classes is {_MOST_CLASSES}: choose another {argument('target')}"
        )
    if target.kind == "number":
        return tuple(sorted({_label(word) for word in target.words}))
    return tuple(sorted(target.words))


def _label(word: str) -> int | float:
    value = Layout(decimal_comma="," in word and "." not in word).read_number(word)
    return int(value) if value == int(value) else value


def _target_bound(target: Found) -> float:
    magnitude = max(abs(target.low), abs(target.high))
    if magnitude > _LARGEST:
        raise BadInput(
            f"the target {target.name!r} reaches {magnitude:g}, which is too large to be exact; "
            "divide the column, or take its logarithm"
        )
    return _round_up(magnitude)


def _feature(column: Found, keep: bool) -> Column | str:
    """Return the column as a feature, or the reason why it cannot be one."""
    kept = keep and column.kind == "number"
    if column.kind == "empty":
        return "it is empty"
    if column.is_constant and not kept:
        return "it is the same in every row"
    if column.kind == "text" and not keep and (names_persons(column.name) or column.has_addresses):
        return f"it names persons: give {argument('owner', column.name)} if rows belong to them"
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


def _text(column: Found) -> Column | str:
    if column.mostly(column.other_dates):
        return f"its dates are not in ISO 8601: write {column.stray!r} like 2024-12-31 to use it"
    words = _words(column)
    many = isinstance(words, str) or column.distinct > _FEW_NUMBERS
    if many and column.mostly(column.decorated):
        return f"its numbers contain other characters: write {column.stray!r} as a number to use it"
    return words


def _words(column: Found) -> Column | str:
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
_USUAL_H = 10.0  # for data without times
_EVERY_S = 600
_UNIX_S = 1e8  # numbers from here on are seconds since 1970
_ROUNDS = 10_000  # the time ends the job
_WAIT_H = 1.25  # a call is worth what arrives in it
_FEWEST = 5  # examples of an update: the update of one would be the example
_CALLS = 4  # of a phone, at least: with little data it calls with fewer examples
_MAX_WAIT_S = 6 * _HOUR_S
_TEST_SHARE = 0.2
_INITIAL_SHARE, _LATER_SHARE = 0.5, 0.4
_TIMED_SHARE = 0.05  # at the start, of data whose times are known


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of a fleet, in proportion to the data."""

    workers: int
    rounds: int
    per_hour: float
    every_s: int = _EVERY_S
    hours: float = _USUAL_H
    fewest: int = _FEWEST  # examples of an update
    initial_share: float = _INITIAL_SHARE

    @classmethod
    def fitting(
        cls,
        examples: int,
        most: int,
        workers: int,
        rounds: int,
        arriving: int = 0,
        hours: float = 0.0,
    ) -> Sizes:
        """Return sizes that suit a number of examples, and the hours in which they came.

        Half of the examples are there at the start, and most of the others arrive until the end; if
        the hours are known, nearly all of them arrive.

        Examples
        --------
        >>> sizes = Sizes.fitting(1000, most=1000, workers=0, rounds=0)
        >>> sizes.workers, sizes.per_hour, sizes.hours, sizes.min_waiting
        (20, 1.6, 10.0, 5)
        """
        count = workers or max(2, min(20, examples // 25, most))
        every_s = max(1, min(_HOUR_S, _LONGEST_S // rounds)) if rounds else _EVERY_S
        fits = 0.0 < hours * _HOUR_S <= _LONGEST_S  # years are replayed faster
        lasts_h = float(f"{hours:.3g}") if fits else _USUAL_H
        lasts_h = rounds * every_s / _HOUR_S if rounds else lasts_h
        learned = (1 - _TEST_SHARE) * (arriving or examples) / count  # by a phone
        initial = _TIMED_SHARE if fits and not rounds else _INITIAL_SHARE
        later = 1.0 - initial if fits and not rounds else _LATER_SHARE
        rate = float(f"{later * learned / lasts_h:.2g}")
        fewest = max(1, min(_FEWEST, int(learned / _CALLS)))
        return cls(count, rounds or _ROUNDS, rate, every_s, lasts_h, fewest, initial)

    @property
    def min_waiting(self) -> int:
        """Examples that are worth a call."""
        return max(self.fewest, round(_WAIT_H * self.per_hour))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The choices of the user; '', 0 and None leave a choice to the program."""

    format: str = ""
    roles: Roles = field(default_factory=Roles)
    learner: str = ""
    delimiter: str = ""
    header: bool | None = None
    skip_lines: int = 0
    workers: int = 0
    rounds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Properties of a data file, and the parts of the proposed job."""

    path: Path
    layout: Layout
    format: str
    columns: Sequence[Found]
    roles: Roles
    learner: str
    source: Tables  # keys that describe the target, the columns or the items
    left_out: Mapping[str, str] = field(default_factory=dict)
    features: Tables = field(default_factory=dict)
    image: Image | None = None
    in_memory: bool = False

    @property
    def lasts_h(self) -> float:
        """Hours between the first and the last row; 0 if unknown."""
        for column in self.columns:
            if column.name == self.roles.time and column.values:
                unit_h = 24.0 if column.kind == "date" else 1.0 / _HOUR_S
                known = column.kind == "date" or column.low >= _UNIX_S
                return unit_h * (column.high - column.low) if known else 0.0
        return 0.0

    def tables(self, folder: Path, sizes: Sizes) -> Tables:
        """Return the job for a fleet of some size; its file is in a folder."""
        by_owner = self.format == "csv" and bool(self.roles.owner)
        batch = round(sizes.per_hour / _ARRIVALS_PER_HOUR)  # an app hands over what it has gathered
        whole = sizes.per_hour.is_integer()
        return {
            "job": {
                "name": Path(self.path.name).stem,
                "learner": self.learner,
                "scheme": "deal",
                "forget_fraction": "0.02",
                "rounds": sizes.rounds,
                "max_h": sizes.hours + (0.0 if sizes.rounds == _ROUNDS else _MAX_WAIT_S / _HOUR_S),
                "workers_per_round": max(1, math.ceil(sizes.workers / 2)),
                "round_every_s": sizes.every_s,
                "selector": "fair_ucb",
                "sleep": True,
                "min_waiting": sizes.min_waiting,
                "wait_j": 0.3,
                "max_wait_s": _MAX_WAIT_S,
                "ride_along": True,
                "ride_wait_s": 2 * _HOUR_S,
                "min_examples_per_update": sizes.fewest,
            },
            "source": {
                "file": _beside(self.path, folder),
                "format": self.format,
                **self._layout_keys(),
                **self.source,
            },
            **({"features": self.features} if self.features else {}),
            "selection": {"fairness": 0.02, "eta": 20.0},
            "devices": [{"count": sizes.workers, "phone": "nexus"}],
            "data": {
                "partition": "by_owner" if by_owner else "uniform",
                "test_share": _TEST_SHARE,
            },
            "arrival": {
                "pattern": "poisson",
                "initial_share": sizes.initial_share,
                "examples_per_hour": int(sizes.per_hour) if whole else sizes.per_hour,
                **({"batch": batch} if batch > 1 else {}),
            },
            "radio": {"own_per_hour": 15.0, "fetch": "calls"},
        }

    def _layout_keys(self) -> Tables:
        layout, plain = self.layout, Layout()
        names = ["header", "decimal_comma", "skip_lines", "encoding"]
        if self.format == "libsvm":
            names = ["encoding"]
        keys = {n: getattr(layout, n) for n in names if getattr(layout, n) != getattr(plain, n)}
        if self.format == "libsvm":
            return keys
        roles = {role: name for role in _ROLES if (name := getattr(self.roles, role))}
        return {"delimiter": layout.delimiter, **keys, **roles}

    def text(self, tables: Tables) -> str:
        """Return the job as a file, with comments."""
        tables = {**tables, "source": dict(tables["source"])}
        columns = tables["source"].pop("columns", None)
        name = tables["job"]["name"]
        lines = [
            f"# A job made by `dealfl job init` for {name}. Every key: `dealfl job keys`",
            "# Columns, bounds, words, classes, items and feature maps determine the statistics.",
            "# They are fixed: changing one of them starts a new model.",
            "",
        ]
        for name, table in tables.items():
            if name == "devices":  # before it, a section that may be wanted
                lines += [] if self.image is None else self.image.draft("features" in tables)
                lines += ["[[devices]]", *self._key_lines(name, table[0]), ""]
                continue
            lines += [f"[{name}]{self._comment(name, table)}", *self._key_lines(name, table), ""]
            if name == "source" and columns is not None:
                lines += [
                    "[source.columns]  # the features; bounds are rounded up from the data",
                    *(f"{toml_key(key)} = {toml_value(column)}" for key, column in columns.items()),
                    *(f"# not {toml_key(key)}: {why}" for key, why in self.left_out.items()),
                    "",
                ]
        return "\n".join(lines)

    def _key_lines(self, section: str, table: Tables) -> Iterator[str]:
        for key, value in table.items():
            above = _ABOVE.get(f"{section}.{key}", "")
            if above:
                yield "# all possible items" if self.in_memory and key == "first_item" else above
            yield f"{toml_key(key)} = {toml_value(value)}{self._comment(f'{section}.{key}', value)}"

    def _comment(self, key: str, value: Any) -> str:  # noqa: ANN401
        """Return the comment that follows a key or the name of a section."""
        if key == "features":
            return _MAP_COMMENTS[value["map"]]
        if key == "data.partition" and value != "by_owner":
            return ""
        return _COMMENTS.get(key, "")


_ABOVE = {
    "source.target_bound": "# largest magnitude of the target; rows beyond it are quarantined",
    "source.first_item": "# all possible items; rows with others are quarantined",
    "source.items": "# all possible items; rows with others are quarantined",
}
_COMMENTS = {
    "job.scheme": "             # or original, newfl, incremental",
    "job.forget_fraction": "    # an exact decimal, theta in the paper",
    "job.rounds": "                # at most: max_h ends the job",
    "job.round_every_s": "           # time between two selections; a call opens a round, too",
    "job.selector": "         # useful phones first, with a minimum share for each",
    "job.sleep": "                  # phones close their connection until a call is worth a burst:",
    "job.min_waiting": "               # never with fewer examples than these;",
    "job.wait_j": "                  # more where a call costs more: what an hour's wait is worth",
    "job.max_wait_s": "            # then a phone calls with any number of examples",
    "job.ride_along": "             # it calls while other traffic has its radio on,",
    "job.ride_wait_s": "            # and waits for that for this time",
    "job.min_examples_per_update": "   # the update of one example would be the example",
    "selection.fairness": "           # minimum share of rounds for each phone",
    "radio.own_per_hour": "         # other traffic of each phone, assumed",
    "radio.fetch": "             # after a use, the next call brings the newest version",
    "source.low": "      # of every feature, rounded up from the data;",
    "source.high": "     # rows beyond are quarantined",
    "source.liked_from": "   # lowest rating of a liked item",
    "devices.phone": "            # its energy is modelled; `dealfl devices` lists others",
    "data.partition": "     # the rows of an owner stay on one device",
    "data.test_share": "            # examples that no worker receives",
    "arrival.pattern": "         # or at_once, steady, each_round",
    "arrival.examples_per_hour": "     # per device, on average",
    "arrival.batch": "                  # examples that arrive together",
}
_MAP_COMMENTS = {
    "bins": "  # numbers are counted by bin",
    "thermometer": "  # every column has the same weight in any unit",
}


def _beside(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()


# -- the sections [source] and [features] --------------------------------------------------------


def _target_keys(target: Target) -> Tables:
    return {"classes": target.classes} if target.classes else {"target_bound": target.bound}


def _column_keys(column: Column) -> Tables:
    """Return the keys whose values are not the defaults."""
    values = ((key, getattr(column, key.name)) for key in keys_of(type(column)).values())
    return {key.name: value for key, value in values if value != key.default}


def _feature_keys(learner: str, features: Mapping[str, Column]) -> Tables:
    """Return the section [features] that suits the learner; empty for the raw columns."""
    limits = [pair for column in features.values() for pair in column.limits]
    wide = [index for index, pair in enumerate(limits) if pair != (0.0, 1.0)]
    suited = LEARNERS[learner].feature_map if wide else None
    if suited == "bins":
        return {
            "map": "bins",
            "columns": wide,
            "low": [limits[index][0] for index in wide],
            "high": [limits[index][1] for index in wide],
            "bins": 16,
        }
    if suited == "thermometer":
        low, high = ([pair[side] for pair in limits] for side in (0, 1))
        return {"map": "thermometer", "low": low, "high": high, "levels": 8}
    return {}


def _libsvm_keys(target: Target, limits: Limits) -> Tables:
    lowest = min(low for low, _ in limits.values())
    highest = max(high for _, high in limits.values())
    low, high = widen_limits(min(lowest, 0.0), max(highest, 0.0))
    if low == high:
        raise BadInput("every feature is 0, so nothing can be learned; check the file")
    return {"n_features": max(limits) + 1, "low": low, "high": high, **_target_keys(target)}


_LIKED_SHARE = 0.6
_SPARSE = 4
_FEW_ITEMS = 10_000


def _rating_keys(columns: Sequence[Found], roles: Roles, n_items: int | None) -> Tables:
    """Return the keys of items and liked ratings; BadInput if a column is unfit."""
    column_of = {column.name: column for column in columns}
    for role in ("owner", "item", "rating"):
        name = getattr(roles, role)
        if name and not column_of[name].values:
            raise BadInput(f"the {role} column {name!r} is empty; choose another --{role}")
    keys: Tables = {}
    if roles.rating:
        rating = column_of[roles.rating]
        if rating.kind != "number":
            raise BadInput(
                f"the rating column {rating.name!r} holds {rating.kind}s; choose another "
                f"{argument('rating')}"
            )
        keys["liked_from"] = _liked_from(rating)
    if n_items is None:
        return keys | _item_keys(column_of[roles.item])
    return keys | {"first_item": 0, "last_item": n_items - 1}


def _liked_from(rating: Found) -> float:
    """Return a rating that occurs in the upper part of the range."""
    mark = rating.low + _LIKED_SHARE * (rating.high - rating.low)
    return min((value for value in rating.sample if value >= mark), default=mark)


def _item_keys(item: Found) -> Tables:
    numbered = item.kind == "number" and item.whole and item.low >= 0 and not item.texts
    if numbered and item.high - item.low < max(_SPARSE * item.distinct, _FEW_ITEMS):
        return {"first_item": int(item.low), "last_item": int(item.high)}
    if item.overflown:
        raise BadInput(
            f"the item column {item.name!r} has more than {item.distinct - 1:,} different texts; "
            "number the items (0, 1, 2, …) and use the numbers"
        )
    if numbered:
        return {"items": sorted({int(float(word)) for word in item.words})}
    return {"items": sorted(item.words)}


# -- from a file, or from data in memory ----------------------------------------------------------


def start(path: Path, wishes: Wishes, ask: Ask) -> Start:
    """Examine a data file and propose a job for it."""
    layout, libsvm = detect_layout(
        path, delimiter=wishes.delimiter, header=wishes.header, skip_lines=wishes.skip_lines
    )
    if wishes.format == "libsvm" or (libsvm and not wishes.format):
        return _start_libsvm(path, wishes, layout, *survey_libsvm(path, layout.encoding))
    columns = survey(path, layout)
    if not any(column.values for column in columns):
        advice = "add rows, and check that every quotation mark is closed"
        advice = "fill in some cells" if any(column.rows for column in columns) else advice
        raise BadInput(f"{path} has columns, but no row has a value; {advice}")
    require_known(wishes.roles, columns)
    names = [column.name for column in columns]
    rated = bool(guess_column("owner", names) and guess_column("item", names))
    rated = rated and not wishes.roles.target and not wishes.learner
    rated = rated and wishes.roles.owner != NO_COLUMN
    if wishes.format == "ratings" or wishes.learner in learners_for("recommendation"):
        rated = True
    chosen = wishes.format or ("ratings" if rated else "csv")
    make = _start_ratings if chosen == "ratings" else _start_table
    return make(path, wishes, layout, columns, ask)


def _start_libsvm(
    path: Path, wishes: Wishes, layout: Layout, label: Found, limits: Limits
) -> Start:
    target = propose_target(label, wishes.learner)
    return Start(
        path=path,
        layout=layout,
        format="libsvm",
        columns=[label],
        roles=Roles(target=label.name),
        learner=target.learner,
        source=_libsvm_keys(target, limits),
    )


def _start_table(
    path: Path,
    wishes: Wishes,
    layout: Layout,
    columns: list[Found],
    ask: Ask,
    *,
    keep: bool = False,
) -> Start:
    """Propose a job for a table of examples; with `keep`, every numeric column is a feature."""
    if len(columns) == 1:
        raise BadInput(
            f"{path} has one column only, {columns[0].name!r}: there is nothing to learn it from; "
            f"if it holds several, give the character between them with {argument('delimiter')}"
        )
    roles = ask_roles(wishes.roles, columns, ("target!", "owner", "time"), ask)
    if columns[0].rows == 1:
        raise BadInput(f"{path} has only one row; a job needs at least 2, to learn and to test")
    chosen = next(column for column in columns if column.name == roles.target)
    target = propose_target(chosen, wishes.learner)
    features, left_out = propose_features(columns, roles, keep=keep)
    playing = (roles.target, roles.owner, roles.time)
    image = find_image([column for column in columns if column.name not in playing], features)
    if image is not None:
        features = dict(image.features())
        left_out = {name: why for name, why in left_out.items() if name not in features}
    described = {name: _column_keys(column) for name, column in features.items()}
    return Start(
        path=path,
        layout=layout,
        format="csv",
        columns=columns,
        roles=roles,
        learner=target.learner,
        source={**_target_keys(target), "columns": described},
        left_out=left_out,
        features=_feature_keys(target.learner, features),
        image=image,
    )


def _start_ratings(
    path: Path,
    wishes: Wishes,
    layout: Layout,
    columns: list[Found],
    ask: Ask,
    n_items: int | None = None,
) -> Start:
    """Propose a job for interactions; None takes the items that occur."""
    wanted, recommenders = replace(wishes.roles, target=""), learners_for("recommendation")
    names = [column.name for column in columns]
    if not layout.header and wishes.roles == Roles() and len(names) in (3, 4):
        wanted = Roles(owner="c1", item="c2", rating="c3", time="c4" if len(names) == 4 else "")
    roles = ask_roles(wanted, columns, ("owner!", "item!", "rating", "time"), ask)
    used = (roles.owner, roles.item, roles.rating, roles.time)
    return Start(
        path=path,
        layout=layout,
        format="ratings",
        columns=columns,
        roles=roles,
        learner=wishes.learner if wishes.learner in recommenders else recommenders[0],
        source=_rating_keys(columns, roles, n_items),
        left_out={
            column.name: _unused(column, roles) for column in columns if column.name not in used
        },
        in_memory=n_items is not None,
    )


def _unused(column: Found, roles: Roles) -> str:
    """Return why a column of interactions is not used; it may be the rating, by another name."""
    if not roles.rating and column.kind == "number" and column.distinct <= _FEW_NUMBERS:
        return f"no column is the rating: give {argument('rating', column.name)} if it is this one"
    return "it is not needed for recommendation"


def start_rows(data: MemoryRows, wishes: Wishes) -> Start:
    """Propose a job for sparse rows in memory."""
    layout = Layout()
    (label,) = survey(data.labels, layout)
    values = data.matrix.data
    limits = (float(values.min(initial=0.0)), float(values.max(initial=0.0)))
    last = data.matrix.shape[1] - 1
    return _start_libsvm(Path(data.name), wishes, layout, label, {last: limits})


def start_table(data: MemoryTable, wishes: Wishes, n_items: int | None = None) -> Start:
    """Propose a job for a table in memory; every column of it without a role is a feature."""
    path = Path(data.name)
    layout = Layout()
    columns = survey(data, layout)
    if wishes.format == "ratings":
        return _start_ratings(path, wishes, layout, columns, take_guess, n_items)

    def no_guess(role: str, names: Sequence[str], _: str, required: bool) -> str:
        return take_guess(role, names, "", required)

    return _start_table(path, wishes, layout, columns, no_guess, keep=True)


def take_guess(role: str, names: Sequence[str], guess: str, required: bool) -> str:
    """Return the guess for a role."""
    if required and not guess:
        raise BadInput(f"the {role} cannot be guessed; give {role}= one of {', '.join(names)}")
    return guess
