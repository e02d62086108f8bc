"""The datasets of the paper and a few more, with the limits that are known before reading.

Bounds are facts about a domain (degrees, census caps, published ranges). They are never measured
from the rows to learn, because the settings of a job must not depend on anyone's example.
"""

from typing import Any

from dealfl.datasets.catalog import classification, recommendation, regression
from dealfl.datasets.catalog.regression import yearpredictionmsd_like
from dealfl.datasets.dataset import Dataset
from dealfl.errors import BadInput, unknown_name
from dealfl.plugins import Registry

__all__ = ["CATALOG", "find_dataset", "yearpredictionmsd_like"]

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
    # the following are not in the paper
    classification.DIGITS,
    recommendation.RETAILROCKET,
    regression.YEARPREDICTIONMSD_LIKE,
    regression.HOUSING_RAW,
    classification.CIFAR10_FULL,
    recommendation.RETAILROCKET_FULL,
)


def _admit(name: str, found: Any) -> Dataset:  # noqa: ANN401
    if not isinstance(found, Dataset):
        raise BadInput(f"{found!r} is not a dealfl.datasets.Dataset")
    if found.name != name:
        raise BadInput(f"the dataset has the name {found.name!r}; both names must be the same")
    return found


CATALOG: Registry[Dataset] = Registry(
    "dealfl.datasets", {entry.name: entry for entry in _ENTRIES}, _admit
)


def find_dataset(name: str) -> Dataset:
    """Return an entry of the catalog.

    Parameters
    ----------
    name : str
        Name of the dataset.

    Returns
    -------
    Dataset
        The entry.

    Raises
    ------
    UnknownName
        No dataset has this name.

    Examples
    --------
    >>> find_dataset("covtype").classes
    (1, 2, 3, 4, 5, 6, 7)
    """
    if name not in CATALOG:
        raise unknown_name("dataset", name, CATALOG)
    return CATALOG[name]
