"""A first job for a user's own file: examine it, assign roles to columns, propose the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    draft_source,
    draft_table,
)
from dealfl.jobs.proposals.images import find_image
from dealfl.jobs.proposals.layouts import detect_layout
from dealfl.jobs.proposals.proposal import (
    NO_COLUMN,
    Roles,
    guess_column,
    looks_like_ratings,
    propose_features,
    propose_target,
    require_known,
)
from dealfl.jobs.proposals.survey import Found, survey, survey_libsvm
from dealfl.learners import learners_for

__all__ = ["Ask", "Start", "Wishes", "start", "start_ratings", "start_table"]

Ask = Callable[[str, Sequence[str], str, bool], str]
"""Function of a role, column names, a proposal and whether a column is required; returns a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The choices of the user; '', 0 and None leave a choice to the program.

    Attributes
    ----------
    format
        Format of the file: "csv", "libsvm" or "ratings".
    roles
        Columns with a role.
    learner
        Name of the learner.
    delimiter
        Character between two cells.
    header
        Whether the first row holds the names of the columns.
    skip_lines
        Number of lines before the table.
    workers
        Number of workers.
    rounds
        Number of rounds.
    """

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
    """Properties of a data file, and the parts of the proposed job.

    Attributes
    ----------
    path
        The data file.
    layout
        Delimiter, header and encoding of the file.
    format
        Format of the file: "csv", "libsvm" or "ratings".
    columns
        Content of each column.
    roles
        Columns with a role.
    learner
        Name of the proposed learner.
    source
        Lines of the section [source] after its layout.
    left_out
        Columns that are not used, with the reason.
    features
        Lines of the section [features]; empty for raw features.
    """

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
        """Return the text of the job file.

        Parameters
        ----------
        folder
            Folder of the job file; the path of the data is written relative to it.
        sizes
            Size of the fleet.

        Returns
        -------
        str
            The job file, with comments.
        """
        roles = Roles() if self.format == "libsvm" else self.roles
        source = [*draft_source(self.path, folder, self.format, self.layout, roles), *self.source]
        by_owner = self.format == "csv" and bool(self.roles.owner)
        name = Path(self.path.name).stem
        return draft_job(name, self.learner, source, self.features, sizes, by_owner)


def start(path: Path, wishes: Wishes, ask: Ask) -> Start:
    """Examine a data file and propose a job for it.

    Parameters
    ----------
    path
        The data file; its format and layout are detected.
    wishes
        Choices of the user, which take precedence over detection.
    ask
        Function that returns the column of a role; see `Ask`.

    Returns
    -------
    Start
        Properties of the file, and the parts of the job.

    Raises
    ------
    BadInput
        If the file cannot be read, or no job can be made for it.
    """
    layout, libsvm = detect_layout(
        path, delimiter=wishes.delimiter, header=wishes.header, skip_lines=wishes.skip_lines
    )
    if wishes.format == "libsvm" or (libsvm and not wishes.format):
        return _start_libsvm(path, wishes, layout)
    columns = survey(path, layout)
    if not any(column.values for column in columns):
        raise BadInput(f"{path} has columns, but no row has a value; {_why_empty(columns)}")
    require_known(wishes.roles, columns)
    names = [column.name for column in columns]
    rated = looks_like_ratings(names) and not wishes.roles.target and not wishes.learner
    rated = rated and wishes.roles.owner != NO_COLUMN
    if wishes.format == "ratings" or wishes.learner in learners_for("recommendation"):
        rated = True
    chosen = wishes.format or ("ratings" if rated else "csv")
    make = start_ratings if chosen == "ratings" else start_table
    return make(path, wishes, layout, columns, ask)


def _why_empty(columns: Sequence[Found]) -> str:
    if any(column.rows for column in columns):
        return "fill in some cells"
    return "add rows, and check that every quotation mark is closed"


def _start_libsvm(path: Path, wishes: Wishes, layout: Layout) -> Start:
    label, limits = survey_libsvm(path, layout.encoding)
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


def start_table(
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
    roles = _ask_roles(wishes.roles, columns, ("target!", "owner", "time"), ask)
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


def start_ratings(
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
    roles = _ask_roles(wanted, columns, ("owner!", "item!", "rating", "time"), ask)
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


def _ask_roles(roles: Roles, columns: list[Found], order: Sequence[str], ask: Ask) -> Roles:
    """Return the roles; `ask` decides those left open. A role that ends in ! is required."""
    for word in order:
        role = word.rstrip("!")
        if getattr(roles, role) == NO_COLUMN and not any(c.name == NO_COLUMN for c in columns):
            roles = _without(roles, role, required=word != role)
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


def _without(roles: Roles, role: str, *, required: bool) -> Roles:
    if required:
        raise BadInput(f"--{role} {NO_COLUMN}: a job needs this column; name one")
    return replace(roles, **{role: ""})


def _require_readable_time(roles: Roles, columns: Sequence[Found]) -> None:
    for column in columns:
        if column.name == roles.time and column.kind not in ("number", "date"):
            raise BadInput(
                f"--time {column.name}: {column.stray!r} is neither a number nor an ISO date such "
                f"as 2024-12-31; convert the column, or give --time {NO_COLUMN}"
            )
