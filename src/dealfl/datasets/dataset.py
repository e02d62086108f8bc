"""A catalogued dataset: where it comes from, how it is read, and what learners must know of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from dealfl.datasets.datafile import DataFile
from dealfl.datasets.domain import Domain
from dealfl.datasets.readers import Content, Interactions, Table

__all__ = ["Dataset", "Task"]

Settings = dict[str, Any]


class Task(StrEnum):
    """What is to be learned from a dataset."""

    REGRESSION = "regression"
    CLASSIFICATION = "classification"
    RECOMMENDATION = "recommendation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """An entry of the catalog; learners take their settings from the limits that it states.

    Either `read` turns the content of the `files` into examples, or `make` makes that many rows
    without files, and `origin` says how.

    Examples
    --------
    >>> from dealfl.datasets import CATALOG
    >>> CATALOG["housing"].target_bound, CATALOG["housing"].domain_for("").n_features
    (64.0, 13)
    """

    name: str
    task: Task
    description: str
    rows: int
    columns: int
    licence: str
    address: str
    files: tuple[DataFile, ...] = ()
    complete: bool = True
    how_to_get: str = ""
    read: Callable[[Sequence[Content]], Table | Interactions] | None = None
    make: Callable[[int], Table] | None = None
    origin: str = ""
    domain: Domain | None = None
    classes: tuple[int, ...] = ()
    target_bound: float = 0.0
    n_items: int = 0
    liked_from: float | None = None
    feature_maps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tuning: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Close the tables given, so that nothing catalogued can change."""
        for name in ("feature_maps", "tuning"):
            tables = {key: MappingProxyType(dict(t)) for key, t in getattr(self, name).items()}
            object.__setattr__(self, name, MappingProxyType(tables))

    def feature_map(self, learner: str) -> Settings | None:
        """Return the table of the declared feature map; None means the raw features."""
        table = self.feature_maps.get(learner)
        if table is None:
            return None
        return {key: list(v) if isinstance(v, tuple) else v for key, v in table.items()}

    def domain_for(self, learner: str) -> Domain:
        """Return the limits of the features that reach a learner."""
        assert self.domain is not None, f"{self.name} is catalogued without a domain"
        table = self.feature_map(learner)
        if table is None:
            return self.domain
        from dealfl.features import feature_map

        bound = feature_map(table, self.domain.n_features).feature_bound.tolist()
        return Domain((0.0,) * len(bound), tuple(bound))  # no map declared here gives less than 0
