"""A catalogued dataset: its source, its reader, and the limits that learners need."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from dealfl.data.domain import Domain
from dealfl.data.readers import PACKINGS, Content, Interactions, Table, unpacked_name

__all__ = ["DataFile", "Dataset", "Task"]

Settings = dict[str, Any]


class Task(StrEnum):
    """What can be learned from a dataset."""

    REGRESSION = "regression"
    CLASSIFICATION = "classification"
    RECOMMENDATION = "recommendation"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a dataset.

    Parameters
    ----------
    path : str
        Name below a data directory.
    rows : int
        Number of rows; checked where no checksum is known.
    sha256 : str, optional
        Checksum of the file as packed under `path`.
    content_sha256 : str, optional
        Checksum of the unpacked content; mirrors can pack it differently.
    content_md5 : str, optional
        MD5 of the unpacked content.
    url : str, optional
        Public address.
    member : str, optional
        Name of the file in the archive at `url`.
    unpacked : str, optional
        Name of the unpacked file; by default `path` without its packing suffix.
    canonical : callable, optional
        Converts the content to bytes that are equal for all spellings of the same values, for
        published files that every user converts on their own.
    canonical_sha256 : str, optional
        Checksum of the result of `canonical`.
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
        """The name of the unpacked content."""
        return self.unpacked or unpacked_name(self.path)

    @property
    def folder(self) -> str:
        """The folder of the file below a data directory."""
        return str(PurePosixPath(self.path).parent)

    @property
    def accepted_paths(self) -> tuple[str, ...]:
        """All names the file can have: catalogued, unpacked, packed differently, or as published.

        Examples
        --------
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
    """An entry of the catalog; learners take their settings from its limits.

    Either `read` converts the content of the `files` to examples, or `make` generates rows.

    Parameters
    ----------
    name : str
        Name in the catalog.
    task : Task
        What can be learned from it.
    description : str
        One sentence for lists of datasets.
    rows : int
        Number of rows of all files.
    columns : int
        Number of columns, including the target.
    licence : str
        Licence or terms of use.
    address : str
        Public page of the dataset.
    files : tuple of DataFile, optional
        Files of the dataset; none if it is generated.
    complete : bool, default True
        Whether it is the whole published dataset.
    how_to_get : str, optional
        Instructions where no automatic download is possible.
    read : callable, optional
        Converts the contents of the files to a `Table` or `Interactions`.
    make : callable, optional
        Generates a number of rows.
    origin : str, optional
        How the rows are generated.
    domain : Domain, optional
        Limits of the features.
    classes : tuple of int, optional
        Classes of a classification dataset.
    target_bound : float, default 0.0
        Largest magnitude of the target of a regression dataset.
    n_items : int, default 0
        Number of items of a recommendation dataset.
    liked_from : float, optional
        Smallest rating that makes an item part of a history.
    feature_maps : mapping of str to mapping, optional
        Settings of a feature map, by learner.
    tuning : mapping of str to mapping, optional
        Settings that suit this dataset, by learner.

    Examples
    --------
    >>> from dealfl.data import CATALOG
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
        """Make the tables read-only."""
        for name in ("feature_maps", "tuning"):
            tables = {
                learner: MappingProxyType(
                    {key: tuple(v) if isinstance(v, list) else v for key, v in table.items()}
                )
                for learner, table in getattr(self, name).items()
            }
            object.__setattr__(self, name, MappingProxyType(tables))

    def feature_map(self, learner: str) -> Settings | None:
        """Return the settings of the feature map for a learner.

        Parameters
        ----------
        learner : str
            Name of the learner.

        Returns
        -------
        dict of str to object, or None
            Settings for `dealfl.features.feature_map`; None for raw features.
        """
        table = self.feature_maps.get(learner)
        if table is None:
            return None
        return {key: list(v) if isinstance(v, tuple) else v for key, v in table.items()}

    def domain_for(self, learner: str) -> Domain:
        """Return the limits of the features that a learner receives.

        Parameters
        ----------
        learner : str
            Name of the learner.

        Returns
        -------
        Domain
            Limits after the feature map for this learner, if any.
        """
        assert self.domain is not None, f"{self.name} is catalogued without a domain"
        table = self.feature_map(learner)
        if table is None:
            return self.domain
        from dealfl.features import feature_map

        bound = feature_map(table, self.domain.n_features).feature_bound.tolist()
        return Domain((0.0,) * len(bound), tuple(bound))  # no map declared here gives less than 0
