"""A first job for data in memory, as for a file with the same content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dealfl.datasets.readers import Layout
from dealfl.errors import BadInput
from dealfl.jobs.proposals.drafting import draft_libsvm
from dealfl.jobs.proposals.proposal import Roles, propose_target
from dealfl.jobs.proposals.starting import Start, Wishes, start_ratings, start_table
from dealfl.jobs.proposals.survey import survey
from dealfl.jobs.sources import MemoryRows, MemoryTable

__all__ = ["start_in_memory", "take_guess"]

_LAYOUT = Layout()


def start_in_memory(
    data: MemoryTable | MemoryRows, wishes: Wishes, n_items: int | None = None
) -> Start:
    """Propose a job for data in memory.

    Columns of a table that have no role in `wishes` are features: no role is guessed. Columns with
    equal values in every row and columns that number the rows are kept.

    Parameters
    ----------
    data
        A table of examples or of interactions, or sparse rows.
    wishes
        Roles of the columns, and the learner.
    n_items
        Number of items, if the data are interactions whose items are numbered from 0; None
        proposes the items that occur.

    Returns
    -------
    Start
        Properties of the data, and the parts of the job.

    Raises
    ------
    BadInput
        If no job can be made for the data.
    """
    if isinstance(data, MemoryRows):
        return _start_rows(data, wishes)
    columns = survey(data, _LAYOUT)
    path = Path(data.name)
    if wishes.format != "ratings":
        return start_table(path, wishes, _LAYOUT, columns, _no_guess, keep=True)
    items = None
    if n_items is not None:
        items = ["# all possible items", "first_item = 0", f"last_item = {n_items - 1}"]
    return start_ratings(path, wishes, _LAYOUT, columns, take_guess, items)


def _no_guess(role: str, names: Sequence[str], guess: str, required: bool) -> str:  # noqa: ARG001
    return take_guess(role, names, "", required)


def take_guess(role: str, names: Sequence[str], guess: str, required: bool) -> str:
    """Return the guess for a role.

    Parameters
    ----------
    role : str
        Name of the role.
    names : sequence of str
        Names of the columns.
    guess : str
        Guessed column, or "".
    required : bool
        Whether to raise BadInput without a guess.

    Returns
    -------
    str
        The guess.
    """
    if required and not guess:
        raise BadInput(f"the {role} cannot be guessed; give {role}= one of {', '.join(names)}")
    return guess


def _start_rows(data: MemoryRows, wishes: Wishes) -> Start:
    (label,) = survey(data.labels, _LAYOUT)
    target = propose_target(label, wishes.learner)
    matrix = data.matrix
    limits = (float(matrix.data.min(initial=0.0)), float(matrix.data.max(initial=0.0)))
    return Start(
        path=Path(data.name),
        layout=_LAYOUT,
        format="libsvm",
        columns=[label],
        roles=Roles(target=label.name),
        learner=target.learner,
        source=draft_libsvm(target, {matrix.shape[1] - 1: limits}),
    )
