"""The datasets of the paper and a few more, with what is known of each before it is read.

Bounds are facts about a domain (degrees, census caps, published ranges), never measured from the
rows that are learned: a job's settings must not depend on anybody's example.
"""

from collections.abc import Mapping
from types import MappingProxyType

from dealfl.datasets.dataset import Dataset
from dealfl.datasets.entries import classification, recommendation, regression
from dealfl.errors import unknown_name

__all__ = ["CATALOG", "catalogued"]

_ENTRIES = (
    recommendation.MOVIELENS,
    recommendation.JESTER,
    classification.MUSHROOMS,
    classification.PHISHING,
    classification.COVTYPE,
    regression.HOUSING,
    regression.CADATA,
    regression.YEARPREDICTIONMSD,
    classification.CIFAR10,
    # the nine of the paper end here
    classification.DIGITS,
    recommendation.RETAILROCKET,
    regression.YEARPREDICTIONMSD_LIKE,
    regression.HOUSING_RAW,
    classification.CIFAR10_FULL,
    recommendation.RETAILROCKET_FULL,
)

CATALOG: Mapping[str, Dataset] = MappingProxyType({entry.name: entry for entry in _ENTRIES})


def catalogued(name: str) -> Dataset:
    """Return the entry of that name.

    >>> catalogued("covtype").classes
    (1, 2, 3, 4, 5, 6, 7)
    """
    if name not in CATALOG:
        raise unknown_name("dataset", name, CATALOG)
    return CATALOG[name]
