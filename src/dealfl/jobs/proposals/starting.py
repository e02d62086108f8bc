"""A first job for a user's own data: examine it, assign roles to columns, propose the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dealfl.data.readers import Layout
from dealfl.data.sources import MemoryRows, MemoryTable
from dealfl.errors import BadInput
from dealfl.jobs.proposals.proposal import (
    NO_COLUMN,
    Ask,
    Roles,
    Sizes,
    ask_roles,
    draft_features,
    draft_job,
    draft_libsvm,
    draft_ratings,
    draft_source,
    draft_table,
    guess_column,
    propose_features,
    propose_target,
    require_known,
)
from dealfl.jobs.proposals.survey import Found, detect_layout, find_image, survey, survey_libsvm
from dealfl.learners import learners_for

Limits = Mapping[int, tuple[float, float]]


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
    source: Sequence[str]
    left_out: Mapping[str, str] = field(default_factory=dict)
    features: Sequence[str] = ()

    def text(self, folder: Path, sizes: Sizes) -> str:
        """Return the text of the job file."""
        roles = Roles() if self.format == "libsvm" else self.roles
        source = [*draft_source(self.path, folder, self.format, self.layout, roles), *self.source]
        by_owner = self.format == "csv" and bool(self.roles.owner)
        name = Path(self.path.name).stem
        return draft_job(name, self.learner, source, self.features, sizes, by_owner)


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
        source=draft_libsvm(target, limits),
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
            "if it holds several, give the character between them with --delimiter"
        )
    roles = ask_roles(wishes.roles, columns, ("target!", "owner", "time"), ask)
    if columns[0].rows == 1:
        raise BadInput(f"{path} has only one row; a job needs at least 2, to learn and to test")
    chosen = next(column for column in columns if column.name == roles.target)
    target = propose_target(chosen, wishes.learner)
    features, left_out = propose_features(columns, roles, keep=keep)
    drafted = draft_features(target.learner, features)
    playing = (roles.target, roles.owner, roles.time)
    image = find_image([one for one in columns if one.name not in playing], features)
    if image is not None:
        features = dict(image.features())
        left_out = {name: why for name, why in left_out.items() if name not in features}
        drafted = draft_features(target.learner, features)
        drafted += image.draft(replaces=bool(drafted))
    return Start(
        path=path,
        layout=layout,
        format="csv",
        columns=columns,
        roles=roles,
        learner=target.learner,
        source=draft_table(target, features, left_out),
        left_out=left_out,
        features=drafted,
    )


def _start_ratings(
    path: Path,
    wishes: Wishes,
    layout: Layout,
    columns: list[Found],
    ask: Ask,
    items: list[str] | None = None,
) -> Start:
    """Propose a job for interactions; `items` are the lines that describe the items."""
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
        source=draft_ratings(columns, roles, items),
        left_out={n: "it is not needed for recommendation" for n in names if n not in used},
    )


# -- data in memory, as a file with the same content --------------------------------------------


def start_in_memory(
    data: MemoryTable | MemoryRows, wishes: Wishes, n_items: int | None = None
) -> Start:
    """Propose a job for data in memory; every column of a table without a role is a feature."""
    path, layout = Path(data.name), Layout()
    if isinstance(data, MemoryRows):
        (label,), matrix = survey(data.labels, layout), data.matrix
        limits = (float(matrix.data.min(initial=0.0)), float(matrix.data.max(initial=0.0)))
        return _start_libsvm(path, wishes, layout, label, {matrix.shape[1] - 1: limits})
    columns = survey(data, layout)
    if wishes.format != "ratings":

        def no_guess(role: str, names: Sequence[str], _: str, required: bool) -> str:
            return take_guess(role, names, "", required)

        return _start_table(path, wishes, layout, columns, no_guess, keep=True)
    items = None
    if n_items is not None:
        items = ["# all possible items", "first_item = 0", f"last_item = {n_items - 1}"]
    return _start_ratings(path, wishes, layout, columns, take_guess, items)


def take_guess(role: str, names: Sequence[str], guess: str, required: bool) -> str:
    """Return the guess for a role."""
    if required and not guess:
        raise BadInput(f"the {role} cannot be guessed; give {role}= one of {', '.join(names)}")
    return guess
