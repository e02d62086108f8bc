"""Loading a dataset by its name, and checking that its files are what they should be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dealfl.datasets.catalog import find_dataset
from dealfl.datasets.data_files import Places, describe_remedy, read_all, read_verified
from dealfl.datasets.dataset import DataFile, Dataset
from dealfl.datasets.readers import Content, Histories, Interactions, Table
from dealfl.errors import BadBytes, BadInput, DatasetMissing

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from dealfl.datasets.readers import Matrix

__all__ = ["Examples", "Finding", "State", "check", "load", "load_entry"]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """A loaded dataset: one row an example, with its target, owner and times where they exist.

    For recommendation an example is an owner's history, and `times` holds the time of every
    interaction beside `histories.indices`.
    """

    name: str
    features: "Matrix"
    targets: NDArray[Any] | None = None
    owners: NDArray[np.int64] | None = None
    times: NDArray[np.int64] | None = None
    test: "Examples | None" = None

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @property
    def histories(self) -> "csr_array[np.int32, tuple[int, int]]":
        """The histories of a recommendation dataset: row = owner, column = item, value = 1."""
        if isinstance(self.features, np.ndarray) or self.targets is not None:
            raise BadInput(f"{self.name} has no histories: it is not for recommendation")
        return self.features

    def without_latest(self) -> "tuple[Examples, NDArray[np.int64]]":
        """Return the histories without each owner's latest interaction, and those items.

        Of several at the same time, the item with the smallest number is taken. The history of
        one item becomes an empty row.
        """
        histories, times = self.histories, self.times
        if times is None:
            raise BadInput(f"{self.name} does not say when: no interaction is the latest")
        owner_of = np.repeat(np.arange(len(self)), np.diff(histories.indptr))
        order = np.lexsort((histories.indices, -times, owner_of))
        first = order[histories.indptr[:-1]]
        kept = np.ones(histories.nnz, bool)
        kept[first] = False
        starts = histories.indptr - np.arange(len(histories.indptr))
        rest = (histories.data[kept], histories.indices[kept], starts)
        earlier = type(histories)(rest, shape=histories.shape)
        items = histories.indices[first].astype(np.int64)
        return replace(self, features=earlier, times=times[kept]), items


def load(
    name: str,
    *,
    rows: int | None = None,
    liked_from: float | None = None,
    places: Places | None = None,
    download: bool = True,
) -> Examples:
    """Return a dataset of the catalog, from the cache, DEALFL_DATA, or its public address.

    `rows` keeps the first examples only, and all of a test part. `liked_from` is the rating from
    which an item belongs to a history, instead of the catalog's.

    >>> load("yearpredictionmsd-like", rows=5).features.shape
    (5, 90)
    """
    dataset = find_dataset(name)
    if rows is not None and rows < 1:
        raise BadInput(f"rows={rows}: ask for at least one row of {name}, or leave it out")
    if liked_from is not None and dataset.liked_from is None:
        raise BadInput(f"liked_from={liked_from}, but {name} has no ratings; leave it out")
    return load_entry(dataset, rows, liked_from, places or Places.from_environment(), download)


def load_entry(
    dataset: Dataset, rows: int | None, liked_from: float | None, places: Places, download: bool
) -> Examples:
    """Return the examples of a catalog entry, wherever the entry comes from."""
    if dataset.make is not None:
        return _from_table(dataset.name, dataset.make(rows or dataset.rows), None)
    parsed = _parse(dataset, read_all(dataset, places, download))
    if isinstance(parsed, Table):
        return _from_table(dataset.name, parsed, rows)
    threshold = dataset.liked_from if liked_from is None else liked_from
    return _from_histories(dataset.name, parsed.histories(threshold), rows)


def _parse(dataset: Dataset, contents: Sequence[Content]) -> Table | Interactions:
    """Return what a dataset's files hold; BadBytes if not as many rows as published."""
    assert dataset.read is not None, f"{dataset.name} is catalogued without a reader"
    parsed = dataset.read(contents)
    expected = sum(file.rows for file in dataset.files)
    if parsed.records != expected:
        raise BadBytes(
            f"dataset {dataset.name}: {parsed.records} rows were read, expected {expected}; "
            f"this is not the published file: get it again from {dataset.address}"
        )
    return parsed


def _from_table(name: str, table: Table, rows: int | None) -> Examples:
    test = _from_table(name, table.test, None) if table.test else None
    return Examples(name, table.features[:rows], table.targets[:rows], test=test)


def _from_histories(name: str, histories: Histories, rows: int | None) -> Examples:
    items, times = histories.items[:rows], histories.times
    kept = None if times is None else times[: items.nnz]
    return Examples(name, items, owners=histories.owners[:rows], times=kept)


# -- checking -----------------------------------------------------------------------------------


class State(StrEnum):
    """What was found of a file."""

    OK = "ok"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one file of a dataset."""

    dataset: str
    file: str
    state: State
    detail: str = ""


def check(dataset: Dataset, places: Places) -> list[Finding]:
    """Return what was found of each file: checksums first, then every row is read.

    >>> from dealfl.datasets import CATALOG
    >>> [finding.state.value for finding in check(CATALOG["movielens"], Places(cache=None))]
    ['missing']
    """
    if dataset.make is not None:
        return [_check_made(dataset)]
    contents: list[Content] = []
    findings = [_check_file(dataset, file, places, contents) for file in dataset.files]
    if len(contents) < len(dataset.files):
        return findings
    try:
        _parse(dataset, contents)
    except BadInput as error:
        return [Finding(dataset.name, f.path, State.DAMAGED, str(error)) for f in dataset.files]
    return findings


def _check_file(
    dataset: Dataset, file: DataFile, places: Places, contents: list[Content]
) -> Finding:
    try:
        contents.append(read_verified(dataset, file, places))
    except DatasetMissing:
        return Finding(dataset.name, file.path, State.MISSING, describe_remedy(dataset, file))
    except BadInput as error:
        return Finding(dataset.name, file.path, State.DAMAGED, str(error))
    found = places.find(file)
    return Finding(dataset.name, file.path, State.OK, str(found.path) if found else "")


def _check_made(dataset: Dataset) -> Finding:
    assert dataset.make is not None
    try:
        dataset.make(1)
    except DatasetMissing as error:
        return Finding(dataset.name, dataset.origin, State.MISSING, str(error))
    return Finding(dataset.name, dataset.origin, State.OK)
