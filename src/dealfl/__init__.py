"""Federated learning for battery-powered devices whose models forget exactly.

Everything here is loaded when it is first used: `import dealfl` takes no time.

Examples
--------
>>> import dealfl
>>> import numpy as np
>>> X = np.random.default_rng(0).uniform(0, 1, (60, 2))
>>> fleet = dealfl.Fleet.from_arrays(X, X[:, 0] > X[:, 1], workers=3)
>>> dealfl.run(fleet, rounds=2, verbose=False).exact
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dealfl.api import Fleet, Interrupted, Result, compare, run, sweep
    from dealfl.errors import (
        BadBytes,
        BadInput,
        DatasetMissing,
        DealError,
        Impossible,
        Incompatible,
        NotLearned,
        OutOfBounds,
        UnknownName,
    )
    from dealfl.learners import (
        NaiveBayes,
        Neighbors,
        PersonalizedPageRank,
        Statistics,
        Tikhonov,
        TikhonovClassifier,
        load,
    )

__all__ = [
    "BadBytes",
    "BadInput",
    "DatasetMissing",
    "DealError",
    "Fleet",
    "Impossible",
    "Incompatible",
    "Interrupted",
    "NaiveBayes",
    "Neighbors",
    "NotLearned",
    "OutOfBounds",
    "PersonalizedPageRank",
    "Result",
    "Statistics",
    "Tikhonov",
    "TikhonovClassifier",
    "UnknownName",
    "__version__",
    "compare",
    "load",
    "run",
    "sweep",
]

__version__ = "0.1.0"

_HOMES = {
    "dealfl.api": ("Fleet", "Interrupted", "Result", "compare", "run", "sweep"),
    "dealfl.errors": (
        "BadBytes",
        "BadInput",
        "DatasetMissing",
        "DealError",
        "Impossible",
        "Incompatible",
        "NotLearned",
        "OutOfBounds",
        "UnknownName",
    ),
    "dealfl.learners": (
        "NaiveBayes",
        "Neighbors",
        "PersonalizedPageRank",
        "Statistics",
        "Tikhonov",
        "TikhonovClassifier",
        "load",
    ),
}


if not TYPE_CHECKING:  # or any name would seem to exist

    def __getattr__(name: str) -> Any:  # noqa: ANN401
        for home, names in _HOMES.items():
            if name in names:
                return globals().setdefault(name, getattr(import_module(home), name))
        raise AttributeError(f"module 'dealfl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
