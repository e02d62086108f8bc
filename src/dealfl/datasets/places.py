"""Where data files may lie on this machine: the cache first, then a directory of the user's."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dealfl.datasets.datafile import DataFile
from dealfl.datasets.dataset import Dataset

__all__ = ["Found", "Places"]


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is here, and which place it was found in."""

    path: Path
    place: str


@dataclass(frozen=True, slots=True)
class Places:
    """The directories that are looked through, in this order; downloads go to the cache.

    Examples
    --------
    >>> places = Places.from_environment({"DEALFL_CACHE": "here", "DEALFL_DATA": "there"})
    >>> [(place, str(directory)) for place, directory in places.named().items()]
    [('cache', 'here'), ('DEALFL_DATA', 'there')]
    """

    cache: Path | None
    data: Path | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Places":
        """Return the places that DEALFL_CACHE (default: the user's cache) and DEALFL_DATA name."""
        cache, data = environment.get("DEALFL_CACHE"), environment.get("DEALFL_DATA")
        return cls(Path(cache) if cache else _user_cache(), Path(data) if data else None)

    def named(self) -> dict[str, Path]:
        """Return the directories that are looked through, by name."""
        both = {"cache": self.cache, "DEALFL_DATA": self.data}
        return {name: path for name, path in both.items() if path is not None}

    def find(self, file: DataFile) -> Found | None:
        """Return where a file lies, under any of the names it may have; None if nowhere."""
        for place, directory in self.named().items():
            for name in file.accepted_paths:
                if (directory / name).is_file():
                    return Found(directory / name, place)
        return None

    def missing(self, dataset: Dataset) -> list[DataFile]:
        """Return the files of a dataset that are nowhere here."""
        return [file for file in dataset.files if self.find(file) is None]


def _user_cache() -> Path | None:
    try:
        import pooch  # type: ignore[import-untyped]
    except ImportError:
        return None  # what pooch would have downloaded can not be there
    return Path(pooch.os_cache("dealfl")).expanduser()
