"""A fleet: a job and its phones, from arrays, frames, files, or a job file."""

from __future__ import annotations

from pathlib import Path

from scipy import sparse

from dealfl.api.data import examples_table, histories_table, sparse_rows
from dealfl.api.prepared_job import PreparedJob, Settings, change
from dealfl.api.proposing import propose, require_count, require_learner
from dealfl.errors import BadInput
from dealfl.jobs import Data, Document
from dealfl.jobs.proposals import Roles, Start, Wishes, start, start_in_memory, take_guess
from dealfl.runs import default_job

__all__ = ["Fleet"]

_HERE = Path("job.toml")


class Fleet(PreparedJob):
    """A job with its data and its phones, ready to run.

    Make one by `from_arrays`, `from_histories`, `from_file` or `from_job`. Bounds, classes, items
    and feature maps are proposed from the data, as by `dealfl job init`; `print(fleet)` shows
    them, and a notebook shows them as a table.

    Parameters
    ----------
    document
        The job.
    text
        The job as it was written; by default it is made from `document`.
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
    ('naive_bayes', 3, 10)
    """

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
            Targets, one for each row: classes (numbers or texts), or numbers.
        learner
            Name of the learner; by default the first that suits the target.
        workers
            Number of phones; by default in proportion to the examples, at most 20.
        owners
            Owner of each row. All rows of an owner are then on one phone.
        times
            Time of each row, numbers or dates; phones receive their rows in this order.
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
        require_learner(learner, "histories", ("regression", "classification"), "from_histories")
        data: Data
        if sparse.issparse(X):
            if owners is not None or times is not None:
                raise BadInput("owners and times need a dense X; pass X.toarray()")
            data, roles, kind = sparse_rows(name, X, y), Roles(), "libsvm"
        else:
            data, roles = examples_table(name, X, y, owners, times)
            kind = "csv"
        wishes = Wishes(
            format=kind, roles=roles, learner=learner or "", workers=require_count(workers)
        )
        begun = start_in_memory(data, wishes)
        return cls._proposed(begun, wishes, test_share, settings, data)

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
            lists of items (in the order of time), or a data frame with one interaction a row.
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
        require_learner(learner, "rows", ("recommendation",), "from_arrays")
        given = Roles(owner=owner, item=item, rating=rating, time=time)
        data, roles, count = histories_table(name, histories, given, n_items)
        wishes = Wishes(
            format="ratings", roles=roles, learner=learner or "", workers=require_count(workers)
        )
        begun = start_in_memory(data, wishes, count)
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
        require_learner(learner)
        roles = Roles(target=target, owner=owner, time=time, item=item, rating=rating)
        wishes = Wishes(
            format=format,
            roles=roles,
            learner=learner or "",
            delimiter=delimiter,
            header=header,
            skip_lines=skip_lines,
            workers=require_count(workers),
        )
        begun = start(Path(path), wishes, take_guess)
        return cls._proposed(begun, wishes, test_share, settings, None)

    @classmethod
    def from_job(cls, path: str | Path | None = None, settings: Settings | None = None) -> Fleet:
        """Return the fleet that a job file describes.

        Parameters
        ----------
        path
            The job file; by default 30 phones that learn handwritten digits.
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
            text = default_job()
            document = Document.parse(text, "digits.toml")
        else:
            document = Document.read(path)
            text = Path(path).read_text("utf-8")
        changed = change(document, settings or {})
        return cls(changed, text="" if settings else text)

    @classmethod
    def _proposed(
        cls,
        begun: Start,
        wishes: Wishes,
        test_share: float,
        settings: Settings | None,
        data: Data | None,
    ) -> Fleet:
        proposal = propose(begun, wishes, _HERE, data)
        document = Document.parse(proposal.text, f"the job of {begun.path.name}")
        shares = {} if test_share == 0.2 else {"data.test_share": test_share}
        changes = {**shares, **(settings or {})}
        return cls(
            change(document, changes),
            text="" if changes else proposal.text,
            data=data,
            proposal=proposal,
        )
