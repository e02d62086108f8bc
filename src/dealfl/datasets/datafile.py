"""One file of a dataset, as it is catalogued."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from dealfl.datasets.readers import PACKINGS, Content, unpacked_name

__all__ = ["DataFile"]


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
