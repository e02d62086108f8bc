"""A fleet: a job and its phones, from arrays, frames, files, or a job file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.data.sources import MemoryRows, MemoryTable, feature_columns, owner_names
from dealfl.errors import BadInput, needs_extra, unknown_name
from dealfl.escaping import for_html
from dealfl.jobs import Data, Document, Reading, change, read_job, read_plan
from dealfl.jobs.proposals import (
    Roles,
    Sizes,
    Start,
    Wishes,
    start,
    start_rows,
    start_table,
    take_guess,
)
from dealfl.learners import (
    LEARNERS,
    column_array,
    frame_columns,
    is_frame,
    is_sparse,
    learners_for,
)
from dealfl.report import format_count
from dealfl.runs import default_job
from dealfl.settings import nearest, plain_value
from dealfl.simulate import FleetSpec, read_fleet
from dealfl.storage import replace_file

_HERE = Path("job.toml")
_MOST = 8
_FIXED = ("classes", "feature_bound", "offset", "target_bound", "intercept", "n_items")

Settings = Mapping[str, object]


class Fleet:
    """A job with its data and its phones, ready to run.

    Make one by `from_arrays`, `from_histories`, `from_file` or `from_job`. Bounds, classes, items
    and feature maps are proposed from the data, as by `dealfl job init`; `print(fleet)` shows
    them, and a notebook shows them as a table.

    Parameters
    ----------
    document
        The job.
    data
        Data in memory, in place of the file that the job names.
    proposal
        How the job was proposed, if it was.

    Raises
    ------
    BadInput
        If a key of the job is wrong; the error names key, value and remedy.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(0, 1, (60, 2))
    >>> fleet = Fleet.from_arrays(X, X[:, 0] > X[:, 1], learner="naive_bayes", workers=3)
    >>> fleet.learner, fleet.workers, fleet.rounds
    ('naive_bayes', 3, 10000)
    """

    def __init__(
        self,
        document: Document,
        *,
        data: Data | None = None,
        proposal: Proposal | None = None,
    ) -> None:
        self.document = document
        self.data = data
        self.proposal = proposal
        if proposal is not None and proposal.document is document:
            self.simulated = proposal.spec
        else:
            self.simulated = read_fleet(document, data)

    # -- where it comes from ----------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        X: object,
        y: object,
        learner: str | None = None,
        workers: int | None = None,
        *,
        owners: object = None,
        times: object = None,
        test_share: float = 0.2,
        settings: Settings | None = None,
        name: str = "data",
    ) -> Fleet:
        """Return a fleet whose phones learn from rows of features with a target each.

        Parameters
        ----------
        X
            Features, one row an example: an array, nested lists, a data frame, or a sparse matrix.
        y
            Targets, one for each row: classes (numbers or texts), or numbers; or the name of a
            column of the frame `X`.
        learner
            Name of the learner; by default the first that suits the target.
        workers
            Number of phones; by default in proportion to the examples, at most 20.
        owners
            Owner of each row, or the name of a column of `X`. All rows of an owner are then on one
            phone.
        times
            Time of each row, numbers or dates, or the name of a column of `X`; phones receive their
            rows in this order.
        test_share
            Share of the rows that no phone receives; quality is measured on them.
        settings
            Values for keys of the job, such as `{"job.forget_fraction": "0.05"}`. None as a value
            removes a key or a section. `dealfl job keys` lists all keys.
        name
            Name of the job.

        Returns
        -------
        Fleet
            The fleet, with everything proposed that was not given.

        Raises
        ------
        BadInput
            If the data cannot be learned from, or a setting is wrong.
        """
        _require_learner(learner, "histories", ("regression", "classification"), "from_histories")
        wishes = Wishes(learner=learner or "", workers=_require_count(workers))
        if not is_sparse(X):
            table, roles = _examples_table(name, X, y, owners, times)
            wishes = replace(wishes, format="csv", roles=roles)
            begun = start_table(table, wishes)
            return cls._proposed(begun, wishes, test_share, settings, table)
        if owners is not None or times is not None:
            raise BadInput("owners and times need a dense X; pass X.toarray()")
        rows = _sparse_rows(name, X, y)
        return cls._proposed(start_rows(rows, wishes), wishes, test_share, settings, rows)

    @classmethod
    def from_histories(
        cls,
        histories: object,
        learner: str | None = None,
        workers: int | None = None,
        *,
        n_items: int | None = None,
        owner: str = "",
        item: str = "",
        rating: str = "",
        time: str = "",
        test_share: float = 0.2,
        settings: Settings | None = None,
        name: str = "histories",
    ) -> Fleet:
        """Return a fleet whose phones learn which items go together.

        Parameters
        ----------
        histories
            A sparse or dense matrix (one row an owner, non-zero for the items of its history),
            lists of items (in the order of time), a mapping of owners to such lists, or a data
            frame with one interaction a row.
        learner
            Name of the learner; by default the first for recommendation.
        workers
            Number of phones; by default in proportion to the histories, at most 20.
        n_items
            Number of items, if they are numbered from 0; by default those that occur.
        owner, item, rating, time
            Columns of a frame; by default guessed from their names.
        test_share
            Share of the histories that no phone receives; quality is measured on them.
        settings
            Values for keys of the job; see `from_arrays`.
        name
            Name of the job.

        Returns
        -------
        Fleet
            The fleet, with everything proposed that was not given.

        Raises
        ------
        BadInput
            If the histories cannot be learned from, or a setting is wrong.
        """
        _require_learner(learner, "rows", ("recommendation",), "from_arrays")
        given = Roles(owner=owner, item=item, rating=rating, time=time)
        data, roles, count = _histories_table(name, histories, given, n_items)
        wishes = Wishes(
            format="ratings", roles=roles, learner=learner or "", workers=_require_count(workers)
        )
        begun = start_table(data, wishes, count)
        if is_frame(histories):
            owners = _column(histories, begun.roles.owner)
            data = data.with_column(begun.roles.owner, owner_names(owners))
        return cls._proposed(begun, wishes, test_share, settings, data)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        target: str = "",
        learner: str | None = None,
        workers: int | None = None,
        *,
        owner: str = "",
        time: str = "",
        item: str = "",
        rating: str = "",
        format: str = "",  # noqa: A002 - the name of the key
        delimiter: str = "",
        header: bool | None = None,
        skip_lines: int = 0,
        test_share: float = 0.2,
        settings: Settings | None = None,
    ) -> Fleet:
        """Return a fleet for a CSV, LIBSVM or ratings file, as `dealfl job init` proposes it.

        Parameters
        ----------
        path
            The file; .gz, .xz, .bz2 and .zip are unpacked.
        target
            Column to predict; by default guessed from the names of the columns.
        learner
            Name of the learner; by default the first that suits.
        workers
            Number of phones; by default in proportion to the examples, at most 20.
        owner, time, item, rating
            Columns; by default guessed from their names. "none" means that there is none.
        format
            `"csv"`, `"libsvm"` or `"ratings"`; by default detected.
        delimiter
            Character between two cells; by default detected.
        header
            Whether the first row names the columns; by default detected.
        skip_lines
            Number of lines before the table.
        test_share
            Share of the examples that no phone receives; quality is measured on them.
        settings
            Values for keys of the job; see `from_arrays`.

        Returns
        -------
        Fleet
            The fleet, with everything proposed that was not given.

        Raises
        ------
        BadInput
            If the file cannot be learned from, or a setting is wrong.
        """
        _require_learner(learner)
        if not isinstance(path, str | PathLike):
            kind = type(path).__name__
            raise BadInput(f"path is a {kind}; pass data in memory to Fleet.from_arrays")
        if Path(path).suffix == ".toml" and Path(path).is_file():
            raise BadInput(f"{path} is a job file; use Fleet.from_job({str(path)!r})")
        roles = Roles(target=target, owner=owner, time=time, item=item, rating=rating)
        wishes = Wishes(
            format=format,
            roles=roles,
            learner=learner or "",
            delimiter=delimiter,
            header=header,
            skip_lines=skip_lines,
            workers=_require_count(workers),
        )
        begun = start(Path(path), wishes, take_guess)
        return cls._proposed(begun, wishes, test_share, settings, None)

    @classmethod
    def from_job(cls, path: str | Path | None = None, settings: Settings | None = None) -> Fleet:
        """Return the fleet that a job file describes.

        Parameters
        ----------
        path
            The job file; by default 15 phones that learn handwritten digits.
        settings
            Values for keys of the job; see `from_arrays`.

        Returns
        -------
        Fleet
            The fleet.

        Raises
        ------
        BadInput
            If the file is missing or a key is wrong; the error names key and line.
        """
        if path is None:
            document = Document.parse(default_job(), "digits.toml")
        else:
            document = Document.read(path)
        return cls(change(document, settings or {}))

    @classmethod
    def _proposed(
        cls,
        begun: Start,
        wishes: Wishes,
        test_share: float,
        settings: Settings | None,
        data: Data | None,
    ) -> Fleet:
        if settings is not None and not isinstance(settings, Mapping):
            raise BadInput(f"settings is {settings!r}; pass values by key: {{'job.rounds': 5}}")
        shares = {} if test_share == 0.2 else {"data.test_share": test_share}
        changes = {**shares, **(settings or {})}
        name = f"the job of {begun.path.name}"
        proposal = propose(begun, wishes, _HERE, data, changes, name)
        return cls(proposal.document, data=data, proposal=proposal)

    # -- what it is -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.simulated.job.name

    @property
    def learner(self) -> str:
        """Name of the learner."""
        return self.simulated.learner

    @property
    def predicts_truths(self) -> bool:
        """Whether the classes are False and True, as the target in memory was given."""
        if self.data is None or not self.simulated.plan.subject.dataset.classes:
            return False
        return self.data.holds_truths(self.document.tables["source"].get("target", ""))

    @property
    def workers(self) -> int:
        """Number of phones."""
        return self.simulated.workers

    @property
    def rounds(self) -> int:
        """Number of rounds after which a run ends."""
        return self.simulated.job.rules.rounds

    def __repr__(self) -> str:
        rows = _describe(self.simulated, self.proposal)
        width = max(len(name) for name, _ in rows)
        lines = [f"  {name.ljust(width)}  {value}" for name, value in rows]
        return "\n".join([f"Fleet {self.name!r}", *lines])

    def _repr_html_(self) -> str:
        rows = html_table([], _describe(self.simulated, self.proposal))
        return f"<b>Fleet {for_html(self.name)}</b>{rows}"

    # -- changed, saved -------------------------------------------------------------------------

    def with_settings(self, settings: Settings) -> Fleet:
        """Return the same fleet with other values for some keys of the job.

        Parameters
        ----------
        settings
            Values by key; see `from_arrays`.

        Returns
        -------
        Fleet
            A new fleet; this one does not change.

        Raises
        ------
        BadInput
            If a key or a value is wrong.
        """
        if not settings:
            return self
        document = change(self.document, settings)
        return Fleet(document, data=self.data, proposal=self.proposal)

    def with_rounds(self, rounds: int) -> Fleet:
        """Return the same fleet with another number of rounds.

        Of a proposed fleet, the time between two rounds and the number of examples that arrive in
        an hour change with it, so that the examples last for all rounds.

        Parameters
        ----------
        rounds
            Number of rounds after which a run ends.

        Returns
        -------
        Fleet
            A new fleet; this one does not change.

        Raises
        ------
        BadInput
            If `rounds` is not a whole number ≥ 1.
        """
        changes: dict[str, object] = {"job.rounds": rounds}
        if self.proposal is not None and isinstance(rounds, Integral) and rounds >= 1:
            start, own = self.proposal.start, self.proposal.wishes.rounds
            sizes = [self.proposal.sizes(number) for number in (own, rounds)]
            before, after = (start.tables(self.document.folder, each) for each in sizes)
            for section, key in _BY_ROUNDS:
                if self.document.tables.get(section, {}).get(key) == plain_value(
                    before[section][key]
                ):
                    changes[f"{section}.{key}"] = after[section][key]
        return self.with_settings(changes)

    def job_text(self) -> str:
        """Return the job as a TOML file that `dealfl run` takes."""
        return self.document.text()

    def save(self, path: str | Path) -> Path:
        """Write the job, and the data beside it if they are in memory, for the command line.

        Parameters
        ----------
        path
            Path of the job file, such as `"job.toml"`.

        Returns
        -------
        Path
            The job file. `dealfl run` with it has the same digest as a run of this fleet.

        Raises
        ------
        BadInput
            If the folder does not exist.
        """
        out = Path(path)
        if not out.parent.is_dir():
            raise BadInput(f"{out}: there is no folder {out.parent}; make it first")
        document = self.document
        file = document.tables.get("source", {}).get("file")
        if self.data is not None:
            replace_file(out.parent / str(file), self.data.text(), mode=0o600)
        elif file is not None:
            document = document.replaced("source.file", str((document.folder / file).resolve()))
        return replace_file(out, document.text(), 0o666)


_BY_ROUNDS = (
    ("job", "max_h"),
    ("job", "round_every_s"),
    ("job", "min_waiting"),
    ("arrival", "examples_per_hour"),
    ("arrival", "initial_share"),
)


# -- data in memory ------------------------------------------------------------------------------


def _examples_table(
    name: str, X: object, y: object, owners: object, times: object
) -> tuple[MemoryTable, Roles]:
    """Return examples as a table, and the columns of target, owner and time in it."""
    columns = feature_columns(X)
    roles: dict[str, str] = {}
    for role, values in (("target", y), ("owner", owners), ("time", times)):
        if values is None:
            continue
        if isinstance(values, str):
            if values not in columns:
                raise BadInput(
                    f"{role} {values!r}: X has no such column; {nearest(values, columns)}"
                )
            roles[role] = values
            if role == "owner":
                columns[values] = owner_names(
                    _column(X, values) if is_frame(X) else columns[values]
                )
            continue
        given = getattr(values, "name", None)
        key = _free_name(given if isinstance(given, str) and role == "target" else role, columns)
        if role == "owner":
            values = owner_names(values)
        columns[key] = _vector(values, "y" if role == "target" else f"{role}s")
        roles[role] = key
    return MemoryTable(f"{name}.csv", columns), Roles(**roles)


def _column(frame: Any, name: str) -> Any:  # noqa: ANN401
    """Return a column of a frame as it is, before its missing values make floats of integers."""
    return next(frame[key] for key in frame.columns if str(key) == name)


def _free_name(wanted: str, taken: Collection[str]) -> str:
    while wanted in taken:
        wanted += "_"
    return wanted


def _vector(values: object, what: str) -> NDArray[Any]:
    columns = frame_columns(values) if is_frame(values) else []
    vector = columns[0][1] if len(columns) == 1 else column_array(values)
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise BadInput(f"{what} has shape {vector.shape}; it takes one value for each row of X")
    return vector


def _sparse_rows(name: str, X: object, y: object) -> MemoryRows:
    """Return a sparse matrix with its targets."""
    from scipy import sparse

    matrix: sparse.csr_array = sparse.csr_array(X)  # type: ignore[call-overload]
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise BadInput(f"X has shape {matrix.shape}; pass a table, one row an example")
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return MemoryRows(f"{name}.svm", matrix, _vector(y, "y"))


def _histories_table(
    name: str, histories: object, roles: Roles, n_items: int | None
) -> tuple[MemoryTable, Roles, int | None]:
    """Return histories as a table of owner and item, its columns, and how many items there are.

    The number of items is None if items are not numbered from 0: then those that occur are all.
    """
    if is_frame(histories):
        return MemoryTable(f"{name}.csv", dict(frame_columns(histories))), roles, n_items
    if is_sparse(histories) or isinstance(histories, np.ndarray):
        with needs_extra("scipy", "a table of histories"):
            from scipy import sparse
        table: sparse.csr_array = sparse.csr_array(histories)  # type: ignore[call-overload]
        owners = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
        kept = table.data != 0
        columns = {"owner": owners[kept], "item": table.indices[kept].astype(np.int64)}
        number = table.shape[1] if n_items is None else n_items
        return MemoryTable(f"{name}.csv", columns), Roles(owner="owner", item="item"), number
    return _table_of_lists(name, histories, n_items)


def _table_of_lists(
    name: str, histories: object, n_items: int | None
) -> tuple[MemoryTable, Roles, int | None]:
    """Return lists of items; their order is that of time."""
    owners = list(histories) if isinstance(histories, Mapping) else None
    given = histories.values() if isinstance(histories, Mapping) else histories
    try:
        rows = [list(_no_text(history)) for history in given]  # type: ignore[attr-defined]
    except TypeError:
        raise BadInput(
            "histories are a csr, lists of items, lists by owner, or a frame with an owner and an "
            "item column"
        ) from None
    if not any(rows):
        raise BadInput("the histories have no item; give at least two histories with items")
    items = column_array([item for row in rows for item in row])
    columns = {
        "owner": np.repeat(
            np.arange(len(rows)) if owners is None else owner_names(owners),
            [len(row) for row in rows],
        ),
        "item": items,
        "time": np.array([time for row in rows for time in range(len(row))]),
    }
    if items.dtype.kind in "iu" and len(items) and n_items is None:
        n_items = int(items.max()) + 1
    roles = Roles(owner="owner", item="item", time="time")
    return MemoryTable(f"{name}.csv", columns), roles, n_items


def _no_text(history: object) -> Any:  # noqa: ANN401
    if isinstance(history, str):
        raise BadInput(f"the history {history!r} is a text; give a list of items")
    return history


# -- a proposed job ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed job, and the data as it reads them."""

    start: Start
    wishes: Wishes
    reading: Reading
    document: Document  # with the settings of the caller
    spec: FleetSpec  # what a run of the document is for

    def sizes(self, rounds: int) -> Sizes:
        """Return the sizes of the fleet for a number of rounds."""
        return _sizes(self.start, self.reading, self.wishes, rounds)


def propose(
    start: Start,
    wishes: Wishes,
    out: Path,
    data: Data | None = None,
    settings: Settings | None = None,
    name: str = "",
) -> Proposal:
    """Return the job for what was found, after reading the data as a run would.

    Errors give the line of a key in a file of this name, by default `out`.
    """
    draft = _document(start, Sizes(2, 1, 1.0), str(out), out.parent)
    reading = read_plan(draft, read_job(draft), data).subject.read()
    count = len(reading.examples)
    if count < 2:
        raise BadInput(f"{start.path.name}: {count} row can be used; at least 2 are needed")
    sizes = _sizes(start, reading, wishes, wishes.rounds)
    document = change(_document(start, sizes, name or str(out), out.parent), settings or {})
    return Proposal(start, wishes, reading, document, read_fleet(document, data))


def _document(start: Start, sizes: Sizes, name: str, folder: Path) -> Document:
    """Return the proposed job; its text is written when it is needed."""
    tables = start.tables(folder, sizes)
    return Document(plain_value(tables), name, folder, partial(start.text, tables))


def _sizes(start: Start, reading: Reading, wishes: Wishes, rounds: int) -> Sizes:
    """Return the sizes of a fleet that suit the data; 0 rounds proposes their number."""
    examples = reading.examples
    count = len(examples)
    owners = count if examples.owners is None else len(set(examples.owners.tolist()))
    records = examples.histories.nnz if start.format == "ratings" else count
    return Sizes.fitting(count, max(owners, 1), wishes.workers, rounds, records, start.lasts_h)


def _require_learner(
    learner: str | None, learns: str = "", tasks: Sequence[str] = (), other: str = ""
) -> None:
    """Refuse a learner that is unknown, or that learns from something else."""
    if not learner:
        return
    if learner not in LEARNERS:
        raise unknown_name("learner", learner, LEARNERS)
    if tasks and not any(learner in learners_for(task) for task in tasks):
        raise BadInput(f"{learner} learns from {learns}; use Fleet.{other}")


def require_fleet(fleet: object) -> None:
    """Refuse what is no fleet; say what makes a fleet of it.

    >>> require_fleet("houses.csv")
    Traceback (most recent call last):
    dealfl.errors.BadInput: 'houses.csv' is no Fleet; pass Fleet.from_file('houses.csv')
    """
    if isinstance(fleet, Fleet):
        return
    if not isinstance(fleet, str | Path):
        kind = type(fleet).__name__
        makers = "Fleet.from_arrays, from_histories, from_file or from_job"
        raise BadInput(f"a fleet is expected, not an object of type {kind}; make one by {makers}")
    path = str(fleet)
    maker = "from_job" if path.endswith(".toml") else "from_file"
    raise BadInput(f"{path!r} is no Fleet; pass Fleet.{maker}({path!r})")


def _require_count(workers: int | None) -> int:
    """Return a number of workers; 0 means: propose one."""
    if workers is None:
        return 0
    if not isinstance(workers, Integral) or isinstance(workers, bool) or workers < 1:
        raise BadInput(f"workers is {workers!r}; it must be a whole number ≥ 1")
    return int(workers)


# -- in words ------------------------------------------------------------------------------------


def html_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a plain HTML table; every text is escaped."""
    names = "".join(f"<th>{for_html(name)}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{for_html(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    top = f"<thead><tr>{names}</tr></thead>" if head else ""
    return f"<table>{top}<tbody>{body}</tbody></table>"


def _describe(fleet: FleetSpec, proposal: Proposal | None) -> list[tuple[str, str]]:
    job, plan = fleet.job, fleet.plan
    phones = ", ".join(f"{group.count} × {group.device}" for group in fleet.devices)
    rows = [
        ("learns from", _data(fleet, proposal)),
        ("phones", phones),
        ("ends", f"after {job.max_h:g} h or {format_count(job.rules.rounds, 'round')}"),
        ("rounds", f"at most {format_count(job.rules.workers_per_round, 'phone')} each"),
        ("scheme", f"{job.scheme}, forget_fraction {job.forget_fraction}"),
        ("learner", plan.learner),
    ]
    if plan.feature_map is not None:
        made, count = plan.feature_map.settings(), int(str(plan.settings.get("n_features")))
        rows.append(("feature map", f"{made.get('map', '')}, {format_count(count, 'feature')}"))
    rows += [("limits", text) for text in _limits(fleet)]
    rows += [(f"  {name}", _short(plan.settings[name])) for name in _FIXED if name in plan.settings]
    left_out: Mapping[str, str] = {} if proposal is None else proposal.start.left_out
    rows += [("left out", f"{name}: {reason}") for name, reason in left_out.items()]
    return rows


def _limits(fleet: FleetSpec) -> list[str]:
    """Return between which limits features lie, the commonest limits first."""
    domain = fleet.plan.subject.dataset.domain
    if domain is None:
        return []
    limits = Counter(zip(domain.low, domain.high, strict=True)).most_common()
    shown = [
        f"{low:g} … {high:g} ({format_count(count, 'feature')})"
        for (low, high), count in limits[:_MOST]
    ]
    return shown + ([f"and {len(limits) - _MOST} others"] if len(limits) > _MOST else [])


def _data(fleet: FleetSpec, proposal: Proposal | None) -> str:
    if proposal is None:
        return fleet.plan.subject.name
    reading = proposal.reading
    what = "histories" if proposal.start.format == "ratings" else "examples"
    aside = f", {len(reading.quarantine):,} rows are quarantined" if len(reading.quarantine) else ""
    share = f"{fleet.data.test_share:.0%} kept for the test"
    domain = fleet.plan.subject.dataset.domain
    columns = "" if domain is None else f" of {format_count(domain.n_features, 'feature')}"
    return f"{len(reading.examples):,} {what}{columns}, {share}{aside}"


def _short(value: object) -> str:
    """Return a value in a few words.

    >>> _short([0.0] * 9), _short(["a", "b"])
    ('0 … 0 (9 values)', 'a, b')
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        return _plain(value)
    if len(value) <= _MOST:
        return ", ".join(map(_plain, value))
    if all(isinstance(part, int | float) for part in value):
        return f"{_plain(min(value))} … {_plain(max(value))} ({len(value)} values)"
    return f"{', '.join(map(_plain, value[:_MOST]))}, … ({len(value)} values)"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
