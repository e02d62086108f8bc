"""The paper's datasets and others: what is known of them, where to get them, how to deal them out.

>>> from dealfl.datasets import load, uniform
>>> songs = load("yearpredictionmsd-like", rows=100)
>>> [len(part) for part in uniform(len(songs), workers=3, seed=0)]
[34, 33, 33]
"""

from dealfl.datasets.catalog import CATALOG, catalogued
from dealfl.datasets.catalog.regression import yearpredictionmsd_like
from dealfl.datasets.datafile import DataFile
from dealfl.datasets.dataset import Dataset, Task
from dealfl.datasets.domain import Domain
from dealfl.datasets.examples import Examples, Finding, State, check, load
from dealfl.datasets.files import Places, fetch
from dealfl.datasets.partition import by_owner, label_skewed, uniform
from dealfl.datasets.readers import Content, Table

__all__ = [
    "CATALOG",
    "Content",
    "DataFile",
    "Dataset",
    "Domain",
    "Examples",
    "Finding",
    "Places",
    "State",
    "Table",
    "Task",
    "by_owner",
    "catalogued",
    "check",
    "fetch",
    "label_skewed",
    "load",
    "uniform",
    "yearpredictionmsd_like",
]
