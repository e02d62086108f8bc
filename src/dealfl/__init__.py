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

from typing import TYPE_CHECKING

from dealfl.loading import load_when_used

if TYPE_CHECKING:
    from dealfl.api import Fleet, Interrupted, Result, compare, run, sweep
    from dealfl.errors import (
        BadBytes,
        BadInput,
        DatasetMissing,
        DealError,
        Impossible,
        Incompatible,
        MissingExtra,
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
    from dealfl.parallel import forget, learn
else:
    __getattr__ = load_when_used(
        __name__,
        {
            "api": ("Fleet", "Interrupted", "Result", "compare", "run", "sweep"),
            "errors": (
                "BadBytes",
                "BadInput",
                "DatasetMissing",
                "DealError",
                "Impossible",
                "Incompatible",
                "MissingExtra",
                "NotLearned",
                "OutOfBounds",
                "UnknownName",
            ),
            "learners": (
                "NaiveBayes",
                "Neighbors",
                "PersonalizedPageRank",
                "Statistics",
                "Tikhonov",
                "TikhonovClassifier",
                "load",
            ),
            "parallel": ("forget", "learn"),
        },
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
    "MissingExtra",
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
    "forget",
    "learn",
    "load",
    "run",
    "sweep",
]

__version__ = "0.1.0"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
