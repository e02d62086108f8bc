"""Loading a dataset by name, and checking its files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dealfl.data.catalog import find_dataset
from dealfl.data.data_files import Places, describe_remedy, read_all, read_verified
from dealfl.data.dataset import DataFile, Dataset
from dealfl.data.readers import Content, Histories, Interactions, Table
from dealfl.errors import BadBytes, BadInput, DatasetMissing

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from dealfl.data.readers import Matrix

__all__ = ["Examples", "Finding", "State", "check", "load", "load_entry"]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """A loaded dataset: one row per example.

    For recommendation, an example is the history of an owner.

    Parameters
    ----------
    name : str
        Name of the dataset.
    features : ndarray or csr_array
        Features, or histories for recommendation.
    targets : ndarray, optional
        Target or class of each row; None for recommendation.
    owners : ndarray of int64, optional
        Owner of each row.
    times : ndarray of int64, optional
        Time of every interaction, parallel to `histories.indices`.
    test : Examples, optional
        Test part, if the publisher defines one.
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
            raise BadInput(f"{self.name} has no histories; it is not a recommendation dataset")
        return self.features

    def meetings(self, row: int) -> list[tuple[int, int]]:
        """Return time and item of each interaction of a history, the earliest first.

        Of several at the same time, the smallest item is first; a time that is not known is 0.

        Parameters
        ----------
        row : int
            Number of the history.

        Returns
        -------
        list of (int, int)
            Time and item of each interaction.
        """
        histories = self.histories
        places = range(histories.indptr[row], histories.indptr[row + 1])
        times = [0 if self.times is None else int(self.times[place]) for place in places]
        items = [int(histories.indices[place]) for place in places]
        return sorted(zip(times, items, strict=True))

    def without_latest(self) -> "tuple[Examples, NDArray[np.int64]]":
        """Split off the latest interaction of each owner.

        If several have the same time, the one with the smallest item number counts as the latest.
        The history of an owner with one item becomes an empty row.

        Returns
        -------
        earlier : Examples
            The histories without the latest interactions.
        items : ndarray of int64
            The item of the latest interaction of each owner.

        Raises
        ------
        BadInput
            The dataset has no histories or no times.
        """
        histories, times = self.histories, self.times
        if times is None:
            raise BadInput(f"{self.name} has no times, so no interaction is the latest")
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
    """Load a dataset of the catalog from the cache, DEALFL_DATA or its public address.

    Parameters
    ----------
    name : str
        Name in the catalog.
    rows : int, optional
        Keep only the first rows; a test part stays whole. By default all rows.
    liked_from : float, optional
        Smallest rating that makes an item part of a history; by default that of the catalog.
    places : Places, optional
        Directories to search; by default those of the environment.
    download : bool, default True
        Download missing files.

    Returns
    -------
    Examples
        The dataset.

    Raises
    ------
    UnknownName
        No dataset has this name.
    DatasetMissing
        A file is missing and cannot be downloaded.
    BadBytes
        A file is damaged or is not the published one.

    Examples
    --------
    >>> load("yearpredictionmsd-like", rows=5).features.shape
    (5, 90)
    """
    dataset = find_dataset(name)
    if rows is not None and rows < 1:
        raise BadInput(f"rows is {rows}; it must be ≥ 1, or None for all rows of {name}")
    if liked_from is not None and dataset.liked_from is None:
        raise BadInput(f"liked_from is {liked_from}, but {name} has no ratings; omit it")
    return load_entry(dataset, rows, liked_from, places or Places.from_environment(), download)


def load_entry(
    dataset: Dataset, rows: int | None, liked_from: float | None, places: Places, download: bool
) -> Examples:
    """Return the examples of a catalog entry; it does not need to be in the catalog."""
    if dataset.make is not None:
        return _from_table(dataset.name, dataset.make(rows or dataset.rows), None)
    parsed = _parse(dataset, read_all(dataset, places, download))
    if isinstance(parsed, Table):
        return _from_table(dataset.name, parsed, rows)
    threshold = dataset.liked_from if liked_from is None else liked_from
    return _from_histories(dataset.name, parsed.histories(threshold), rows)


def _parse(dataset: Dataset, contents: Sequence[Content]) -> Table | Interactions:
    """Return the content of a dataset's files; raise `BadBytes` if the number of rows is wrong."""
    assert dataset.read is not None, f"{dataset.name} is catalogued without a reader"
    parsed = dataset.read(contents)
    expected = sum(file.rows for file in dataset.files)
    if parsed.records != expected:
        raise BadBytes(
            f"dataset {dataset.name} has {parsed.records} rows, expected {expected}; "
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
    """The state of a data file."""

    OK = "ok"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of checking one file of a dataset.

    Parameters
    ----------
    dataset : str
        Name of the dataset.
    file : str
        Catalogued name of the file.
    state : State
        Whether the file is ok, missing or damaged.
    detail : str, optional
        Path, error or remedy.
    """

    dataset: str
    file: str
    state: State
    detail: str = ""


def check(dataset: Dataset, places: Places) -> list[Finding]:
    """Check the files of a dataset: first the checksums, then every row.

    Parameters
    ----------
    dataset : Dataset
        Entry of the catalog.
    places : Places
        Directories to search.

    Returns
    -------
    list of Finding
        One finding per file.

    Examples
    --------
    >>> from dealfl.data import CATALOG
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
