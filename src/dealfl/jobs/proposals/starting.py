"""A first job for a user's own file: look at it, settle what each column is, propose the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dealfl.datasets.readers import Layout
from dealfl.errors import BadInput
from dealfl.jobs.proposals.drafting import (
    Sizes,
    draft_features,
    draft_job,
    draft_libsvm,
    draft_ratings,
    draft_table,
    survey_libsvm,
)
from dealfl.jobs.proposals.proposal import (
    Roles,
    guess_column,
    looks_like_ratings,
    propose_features,
    propose_target,
    require_known,
)
from dealfl.jobs.proposals.survey import Found, detect_layout, survey
from dealfl.settings import toml_value

__all__ = ["Ask", "Start", "Wishes", "start"]

Ask = Callable[[str, Sequence[str], str, bool], str]
"""Asks for the column of a role, among names, with a proposal, and whether it must have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user said; '' and 0 leave it open."""

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
    """What was found, and the parts of the job that is proposed."""

    name: str
    format: str
    columns: tuple[Found, ...]
    left_out: dict[str, str]
    roles: Roles
    learner: str
    source: tuple[str, ...]
    features: tuple[str, ...] = ()

    def text(self, sizes: Sizes) -> str:
        """Return the job file."""
        by_owner = self.format == "csv" and bool(self.roles.owner)
        name = Path(self.name).stem
        return draft_job(name, self.learner, self.source, self.features, sizes, by_owner)


def start(path: Path, folder: Path, wishes: Wishes, ask: Ask) -> Start:
    """Look at a file and propose a job that stands in `folder`."""
    layout, libsvm = detect_layout(
        path,
        delimiter=wishes.delimiter,
        header=wishes.header,
        skip_lines=wishes.skip_lines,
    )
    if wishes.format == "libsvm" or (libsvm and not wishes.format):
        return _libsvm(path, folder, wishes, layout)
    columns = survey(path, layout)
    if not any(column.values for column in columns):
        raise BadInput(f"{path} has names of columns, but no row with a value in it")
    require_known(wishes.roles, columns)
    names = [column.name for column in columns]
    rated = looks_like_ratings(names) and not wishes.roles.target and not wishes.learner
    if wishes.format == "ratings" or wishes.learner == "personalized_pagerank":
        rated = True
    chosen = wishes.format or ("ratings" if rated else "csv")
    make = _ratings if chosen == "ratings" else _table
    return make(path, folder, wishes, layout, columns, ask)


def _lines(path: Path, folder: Path, chosen: str, layout: Layout, roles: Roles) -> list[str]:
    """Return the lines that say where the file is and how it is laid out."""
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


def _libsvm(path: Path, folder: Path, wishes: Wishes, layout: Layout) -> Start:
    label, limits = survey_libsvm(path, layout.encoding)
    target = propose_target(label, wishes.learner)
    lines = draft_libsvm(target, limits)
    source = _lines(path, folder, "libsvm", layout, Roles())
    return Start(
        name=path.name,
        format="libsvm",
        columns=(label,),
        left_out={},
        roles=Roles(target=label.name),
        learner=target.learner,
        source=(*source, *lines),
    )


def _table(
    path: Path, folder: Path, wishes: Wishes, layout: Layout, columns: list[Found], ask: Ask
) -> Start:
    if len(columns) == 1:
        raise BadInput(
            f"{path} has one column only, {columns[0].name!r}: there is nothing to learn it from; "
            "if it holds several, name what stands between them by --delimiter"
        )
    roles = _asked(wishes.roles, columns, ("target!", "owner", "time"), ask)
    chosen = next(column for column in columns if column.name == roles.target)
    target = propose_target(chosen, wishes.learner)
    features, left_out = propose_features(columns, roles)
    source = _lines(path, folder, "csv", layout, roles)
    return Start(
        name=path.name,
        format="csv",
        columns=tuple(columns),
        left_out=left_out,
        roles=roles,
        learner=target.learner,
        source=(*source, *draft_table(target, features, left_out)),
        features=tuple(draft_features(target.learner, features)),
    )


def _ratings(
    path: Path, folder: Path, wishes: Wishes, layout: Layout, columns: list[Found], ask: Ask
) -> Start:
    wanted = wishes.roles
    names = [column.name for column in columns]
    if not layout.header and wanted == Roles() and len(names) in (3, 4):
        wanted = Roles(owner="c1", item="c2", rating="c3", time="c4" if len(names) == 4 else "")
    roles = _asked(replace(wanted, target=""), columns, ("owner!", "item!", "rating", "time"), ask)
    lines = draft_ratings(columns, roles)
    source = _lines(path, folder, "ratings", layout, roles)
    used = (roles.owner, roles.item, roles.rating, roles.time)
    left_out = {name: "it is not needed for recommendation" for name in names if name not in used}
    return Start(
        name=path.name,
        format="ratings",
        columns=tuple(columns),
        left_out=left_out,
        roles=roles,
        learner="personalized_pagerank",
        source=(*source, *lines),
    )


def _asked(roles: Roles, columns: list[Found], order: Sequence[str], ask: Ask) -> Roles:
    """Return the roles, each as wished, or else as asked for with a guess; a ! must have one."""
    for word in order:
        role = word.rstrip("!")
        if getattr(roles, role):
            continue
        taken = {roles.target, roles.owner, roles.time, roles.item, roles.rating}
        free = [column for column in columns if column.name not in taken and column.values]
        names = [column.name for column in free]
        guess = guess_column(role, names)
        if role == "time" and not guess:
            dates = [column.name for column in free if column.kind == "date"]
            guess = dates[0] if len(dates) == 1 else ""
        roles = replace(roles, **{role: ask(role, names, guess, word != role)})
    require_known(roles, columns)
    return roles
