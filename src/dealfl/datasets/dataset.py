"""A catalogued dataset: where it comes from, how it is read, and what learners must know of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from dealfl.datasets.datafile import DataFile
from dealfl.datasets.domain import Domain
from dealfl.datasets.readers import Content, Interactions, Table
from dealfl.errors import BadInput, unknown_name
from dealfl.plugins import plugged_in, plugins

__all__ = ["Dataset", "Task"]

Settings = dict[str, Any]


class Task(StrEnum):
    """What is to be learned from a dataset."""

    REGRESSION = "regression"
    CLASSIFICATION = "classification"
    RECOMMENDATION = "recommendation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """An entry of the catalog; `settings` gives what a learner's constructor needs.

    Either `read` turns the content of the `files` into examples, or `make` makes that many rows
    without files, and `origin` says how.

    Examples
    --------
    >>> from dealfl.datasets import CATALOG
    >>> CATALOG["housing"].settings("tikhonov")["target_bound"]
    64.0
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

    @property
    def learners(self) -> tuple[str, ...]:
        """The names of the learners that fit the task."""
        others = (name for name in plugins(_OTHERS) if _fits(name, self.task))
        return (*_SETTINGS[self.task], *others)

    def settings(self, learner: str) -> Settings:
        """Return the keyword arguments for the constructor of a learner, by the learner's name.

        They fit the output of `feature_map(learner)` where one is declared, else the raw features.
        """
        makers = _SETTINGS[self.task]
        if learner in makers:
            proposed = makers[learner](self)
        elif learner in plugins(_OTHERS) and _fits(learner, self.task):
            proposed = dict(plugged_in(_OTHERS, learner).settings_for(self))
        else:
            raise unknown_name(f"learner for {self.name} ({self.task})", learner, self.learners)
        return {**proposed, **self.tuning.get(learner, {})}

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


_OTHERS = "dealfl.learners"  # of other packages: a class says which tasks it is for, and how


def _fits(learner: str, task: Task) -> bool:
    try:
        return task in getattr(plugged_in(_OTHERS, learner), "tasks", ())
    except BadInput:
        return False  # a broken package; whoever asks for its learner is told


def _tikhonov(dataset: Dataset) -> Settings:
    domain = dataset.domain_for("tikhonov")
    return {
        "n_features": domain.n_features,
        "feature_bound": domain.magnitude,
        "target_bound": dataset.target_bound,
    }


def _tikhonov_classifier(dataset: Dataset) -> Settings:
    domain = dataset.domain_for("tikhonov_classifier")
    return {
        "n_features": domain.n_features,
        "classes": dataset.classes,
        "feature_bound": domain.magnitude,
    }


def _naive_bayes(dataset: Dataset) -> Settings:
    domain = dataset.domain_for("naive_bayes")
    return {
        "n_features": domain.n_features,
        "classes": dataset.classes,
        "feature_bound": domain.span,
        "offset": domain.lowest,
    }


def _neighbors(dataset: Dataset) -> Settings:
    domain = dataset.domain_for("neighbors")
    return {
        "n_features": domain.n_features,
        "classes": dataset.classes,
        "feature_bound": domain.radius,
        "offset": domain.centre,
    }


def _personalized_pagerank(dataset: Dataset) -> Settings:
    return {"n_items": dataset.n_items}


_SETTINGS: Mapping[Task, Mapping[str, Callable[[Dataset], Settings]]] = {
    Task.REGRESSION: {"tikhonov": _tikhonov},
    Task.CLASSIFICATION: {
        "tikhonov_classifier": _tikhonov_classifier,
        "naive_bayes": _naive_bayes,
        "neighbors": _neighbors,
    },
    Task.RECOMMENDATION: {"personalized_pagerank": _personalized_pagerank},
}
