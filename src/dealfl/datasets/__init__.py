"""Datasets of the paper and others: their catalog, download, readers and splits among workers.

>>> from dealfl.datasets import load, split_uniformly
>>> songs = load("yearpredictionmsd-like", rows=100)
>>> [len(part) for part in split_uniformly(len(songs), workers=3, seed=0)]
[34, 33, 33]
"""

from dealfl.datasets.catalog import CATALOG, find_dataset, yearpredictionmsd_like
from dealfl.datasets.data_files import Places, fetch
from dealfl.datasets.dataset import DataFile, Dataset, Task
from dealfl.datasets.domain import Domain
from dealfl.datasets.examples import Examples, Finding, State, check, load
from dealfl.datasets.partition import split_by_label, split_by_owner, split_uniformly
from dealfl.datasets.readers import Content, Table

__all__ = [
    "CATALOG", "Content", "DataFile", "Dataset", "Domain", "Examples", "Finding", "Places", "State",
    "Table", "Task", "check", "fetch", "find_dataset", "load", "split_by_label", "split_by_owner",
    "split_uniformly", "yearpredictionmsd_like",
]  # fmt: skip
