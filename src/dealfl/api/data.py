"""What callers pass in: data as tables in memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.data.sources import MemoryRows, MemoryTable, feature_columns
from dealfl.errors import BadInput
from dealfl.jobs.proposals import Roles
from dealfl.learners import column_array, frame_columns, is_frame

Columns = dict[str, NDArray[Any]]


def examples_table(
    name: str, X: object, y: object, owners: object, times: object
) -> tuple[MemoryTable, Roles]:
    """Return examples as a table, and the columns of target, owner and time in it."""
    columns = feature_columns(X)
    roles = {}
    for role, values in (("target", y), ("owner", owners), ("time", times)):
        if values is None:
            continue
        given = getattr(values, "name", None)
        key = _free_name(given if isinstance(given, str) and role == "target" else role, columns)
        columns[key] = _vector(values, "y" if role == "target" else f"{role}s")
        roles[role] = key
    return MemoryTable(f"{name}.csv", columns), Roles(**roles)


def _free_name(wanted: str, taken: Collection[str]) -> str:
    while wanted in taken:
        wanted += "_"
    return wanted


def _vector(values: object, what: str) -> NDArray[Any]:
    columns = frame_columns(values) if is_frame(values) else []
    vector = columns[0][1] if len(columns) == 1 else column_array(values)
    if vector.ndim != 1:
        raise BadInput(f"{what} has shape {vector.shape}; it takes one value for each row of X")
    return vector


def sparse_rows(name: str, X: object, y: object) -> MemoryRows:
    """Return a sparse matrix with its targets."""
    matrix: sparse.csr_array = sparse.csr_array(X)  # type: ignore[call-overload]
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise BadInput(f"X has shape {matrix.shape}; pass a table, one row an example")
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return MemoryRows(f"{name}.svm", matrix, _vector(y, "y"))


# -- histories ----------------------------------------------------------------------------------


def histories_table(
    name: str, histories: object, roles: Roles, n_items: int | None
) -> tuple[MemoryTable, Roles, int | None]:
    """Return histories as a table of owner and item, its columns, and how many items there are.

    The number of items is None if items are not numbered from 0: then those that occur are all.
    """
    if is_frame(histories):
        return MemoryTable(f"{name}.csv", dict(frame_columns(histories))), roles, n_items
    if sparse.issparse(histories) or isinstance(histories, np.ndarray):
        table: sparse.csr_array = sparse.csr_array(histories)  # type: ignore[arg-type]
        owners = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
        kept = table.data != 0
        columns = {"owner": owners[kept], "item": table.indices[kept].astype(np.int64)}
        number = table.shape[1] if n_items is None else n_items
        return MemoryTable(f"{name}.csv", columns), Roles(owner="owner", item="item"), number
    return _from_lists(name, histories, n_items)


def _from_lists(
    name: str, histories: object, n_items: int | None
) -> tuple[MemoryTable, Roles, int | None]:
    """Return lists of items; their order is that of time."""
    try:
        rows = [list(one) for one in histories]  # type: ignore[attr-defined]
    except TypeError:
        raise BadInput(
            "histories are a csr, lists of items, or a frame with an owner and an item column"
        ) from None
    items = column_array([item for row in rows for item in row])
    columns = {
        "owner": np.repeat(np.arange(len(rows)), [len(row) for row in rows]),
        "item": items,
        "time": np.array([place for row in rows for place in range(len(row))]),
    }
    if items.dtype.kind in "iu" and len(items) and n_items is None:
        n_items = int(items.max()) + 1
    roles = Roles(owner="owner", item="item", time="time")
    return MemoryTable(f"{name}.csv", columns), roles, n_items
