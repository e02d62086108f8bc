"""A dataset: its files, its task, the limits of its features, and the maps that suit learners."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from dealfl.data.readers import PACKINGS, Content, Interactions, Table, unpacked_name
from dealfl.errors import BadInput

Bound = float | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """The lowest and the highest value of each feature, as facts and not as measurements.

    Examples
    --------
    >>> degrees_and_flag = Domain.of((0, 360), (0, 1))
    >>> degrees_and_flag.centre, degrees_and_flag.span
    ((180.0, 0.5), (360.0, 1.0))
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    typical: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check that low < high and that typical values lie between them."""
        for feature, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if not low < high:
                raise BadInput(f"feature {feature}: low is {low}; it must be below high, {high}")
        typical = zip(self.low, self._centres(), self.high, strict=True)
        for feature, (low, value, high) in enumerate(typical):
            if not low <= value <= high:
                raise BadInput(f"feature {feature}: typical is {value}, outside [{low}, {high}]")

    @classmethod
    def of(cls, *limits: tuple[float, float]) -> "Domain":
        """Create a domain from pairs of limits.

        Parameters
        ----------
        *limits
            Lower and upper limit of each feature.

        Returns
        -------
        Domain
            The domain.
        """
        lows, highs = zip(*limits, strict=True)
        return cls(tuple(map(float, lows)), tuple(map(float, highs)))

    @classmethod
    def alike(cls, n_features: int, low: float, high: float) -> "Domain":
        """Create a domain in which all features have the same limits.

        Parameters
        ----------
        n_features
            Number of features.
        low
            Lower limit.
        high
            Upper limit.

        Returns
        -------
        Domain
            The domain.
        """
        return cls((float(low),) * n_features, (float(high),) * n_features)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.low)

    @property
    def magnitude(self) -> Bound:
        """The largest absolute value of each feature; one number if all are equal."""
        return _shortest(tuple(max(abs(a), abs(b)) for a, b in self._limits()))

    @property
    def lowest(self) -> Bound:
        """The low limits; one number if all are equal."""
        return _shortest(self.low)

    @property
    def span(self) -> Bound:
        """The distance from low to high; one number if all are equal."""
        return _shortest(tuple(high - low for low, high in self._limits()))

    @property
    def centre(self) -> Bound:
        """The typical value of each feature, or its middle; one number if all are equal."""
        return _shortest(self._centres())

    @property
    def radius(self) -> Bound:
        """The largest distance from the centre; one number if all are equal."""
        limits = zip(self._limits(), self._centres(), strict=True)
        return _shortest(tuple(max(high - mid, mid - low) for (low, high), mid in limits))

    def _centres(self) -> tuple[float, ...]:
        return self.typical or tuple((low + high) / 2 for low, high in self._limits())

    def _limits(self) -> tuple[tuple[float, float], ...]:
        return tuple(zip(self.low, self.high, strict=True))


def _shortest(values: tuple[float, ...]) -> Bound:
    return values[0] if len(set(values)) == 1 else values


Settings = dict[str, Any]


class Task(StrEnum):
    """What can be learned from a dataset."""

    REGRESSION = "regression"
    CLASSIFICATION = "classification"
    RECOMMENDATION = "recommendation"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a dataset."""

    path: str
    rows: int
    sha256: str | None = None
    content_sha256: str | None = None
    content_md5: str | None = None
    url: str | None = None
    member: str | None = None
    unpacked: str | None = None
    published: tuple[str, ...] = ()  # other names of it, or of an archive with it
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
        names += [f"{self.folder}/{name}" for name in self.published]
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
    of_paper: bool = False
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
        learner
            Name of the learner.

        Returns
        -------
        Settings | None
            The settings; None if the learner takes the raw features.
        """
        table = self.feature_maps.get(learner)
        if table is None:
            return None
        return {key: list(v) if isinstance(v, tuple) else v for key, v in table.items()}

    def domain_for(self, learner: str) -> Domain:
        """Return the limits of the features that a learner receives.

        Parameters
        ----------
        learner
            Name of the learner.

        Returns
        -------
        Domain
            The limits.
        """
        assert self.domain is not None, f"{self.name} is catalogued without a domain"
        table = self.feature_map(learner)
        if table is None:
            return self.domain
        from dealfl.features import feature_map

        bound = feature_map(table, self.domain.n_features).feature_bound.tolist()
        return Domain((0.0,) * len(bound), tuple(bound))  # no map declared here gives less than 0
