"""Plug-ins: what authors of learners, selectors, retentions, datasets and phones import.

A package declares entry points in its pyproject.toml. They are imported on first use:

    [project.entry-points."dealfl.phones"]
    pixel = "their_package.phones:PIXEL"

Names of dealfl take precedence. A broken plug-in causes an error only when it is used.
"""

from dealfl.data import Dataset, Domain, Table, Task
from dealfl.exact import (
    ArraySpec,
    Entries,
    FixedPoint,
    Integers,
    Proposal,
    Schema,
    Setting,
    Statistics,
    Storage,
)
from dealfl.learners import (
    Classifier,
    Cycles,
    DataLimits,
    HistoryLearner,
    Labels,
    Learner,
    LearnerCycles,
    RowLearner,
    SparseVector,
    Work,
    Workload,
    as_matrix,
    dense_blocks,
)
from dealfl.power import Phone
from dealfl.registry import Registry, load_plugin, package_of, plugins
from dealfl.server.selection import Candidate, Selector
from dealfl.settings import As, Numbers
from dealfl.worker import Eviction, Retention, Scheme

__all__ = [
    "ArraySpec",
    "As",
    "Candidate",
    "Classifier",
    "Cycles",
    "DataLimits",
    "Dataset",
    "Domain",
    "Entries",
    "Eviction",
    "FixedPoint",
    "HistoryLearner",
    "Integers",
    "Labels",
    "Learner",
    "LearnerCycles",
    "Numbers",
    "Phone",
    "Proposal",
    "Registry",
    "Retention",
    "RowLearner",
    "Schema",
    "Scheme",
    "Selector",
    "Setting",
    "SparseVector",
    "Statistics",
    "Storage",
    "Table",
    "Task",
    "Work",
    "Workload",
    "as_matrix",
    "dense_blocks",
    "load_plugin",
    "package_of",
    "plugins",
]
