"""A catalogued dataset: where it comes from, how it is read, and what learners must know of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from dealfl.datasets.domain import Domain
from dealfl.datasets.readers import PACKINGS, Content, Interactions, Table, unpacked_name

__all__ = ["DataFile", "Dataset", "Task"]

Settings = dict[str, Any]


class Task(StrEnum):
    """What is to be learned from a dataset."""

    REGRESSION = "regression"
    CLASSIFICATION = "classification"
    RECOMMENDATION = "recommendation"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a dataset: its name below a data directory, its checksums, its public address.

    `sha256` is that of the file as packed under `path`; `content_sha256` and `content_md5` are of
    what is inside, since a mirror may pack it differently. Without any, rows are counted instead.
    `member` names the file in the archive at `url`. `canonical` gives bytes that are equal for all
    ways to write the same values, where everybody has to convert the published file alone.
    """

    path: str
    rows: int
    sha256: str | None = None
    content_sha256: str | None = None
    content_md5: str | None = None
    url: str | None = None
    member: str | None = None
    unpacked: str | None = None
    canonical: Callable[[Content], bytes] | None = None
    canonical_sha256: str | None = None

    @property
    def unpacked_path(self) -> str:
        """The name under which the unpacked content is kept."""
        return self.unpacked or unpacked_name(self.path)

    @property
    def folder(self) -> str:
        """The folder below a data directory in which the file lies."""
        return str(PurePosixPath(self.path).parent)

    @property
    def accepted_paths(self) -> tuple[str, ...]:
        """Every name the file may have: as catalogued, unpacked, packed otherwise, as published.

        >>> DataFile("cadata/houses.csv.gz", rows=2, url="https://example.org/h.tgz").accepted_paths
        ... # doctest: +NORMALIZE_WHITESPACE
        ('cadata/houses.csv.gz', 'cadata/houses.csv', 'cadata/houses.csv.xz',
         'cadata/houses.csv.bz2', 'cadata/houses.csv.zip', 'cadata/h.tgz')
        """
        names = [self.path, *(self.unpacked_path + packing for packing in ("", *PACKINGS))]
        if self.url:
            names.append(f"{self.folder}/{PurePosixPath(self.url).name}")
        return tuple(dict.fromkeys(names))

    @property
    def has_checksum(self) -> bool:
        """Whether any checksum of the file is known."""
        return any((self.sha256, self.content_sha256, self.content_md5))


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
