"""Datasets of the paper and others: their catalog, download, readers and splits among workers.

>>> from dealfl.data import load, split_uniformly
>>> songs = load("yearpredictionmsd-like", rows=100)
>>> [len(part) for part in split_uniformly(len(songs), workers=3, seed=0)]
[34, 33, 33]
"""

from typing import TYPE_CHECKING

from dealfl.loading import load_when_used

if TYPE_CHECKING:
    from dealfl.data.catalog import CATALOG, find_dataset, yearpredictionmsd_like
    from dealfl.data.data_files import Directories, State, check, fetch, load
    from dealfl.data.dataset import DataFile, Dataset, Domain, Task
    from dealfl.data.examples import Examples, split_by_label, split_by_owner, split_uniformly
    from dealfl.data.readers import Content, Table
else:
    __getattr__ = load_when_used(
        __name__,
        {
            "catalog": (
                "CATALOG",
                "find_dataset",
                "yearpredictionmsd_like",
            ),
            "data_files": (
                "Directories",
                "State",
                "check",
                "fetch",
                "load",
            ),
            "dataset": (
                "DataFile",
                "Dataset",
                "Domain",
                "Task",
            ),
            "examples": (
                "Examples",
                "split_by_label",
                "split_by_owner",
                "split_uniformly",
            ),
            "readers": (
                "Content",
                "Table",
            ),
        },
    )


__all__ = [
    "CATALOG",
    "Content",
    "DataFile",
    "Dataset",
    "Directories",
    "Domain",
    "Examples",
    "State",
    "Table",
    "Task",
    "check",
    "fetch",
    "find_dataset",
    "load",
    "split_by_label",
    "split_by_owner",
    "split_uniformly",
    "yearpredictionmsd_like",
]
