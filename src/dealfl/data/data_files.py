"""Files of datasets: where they are, how they are downloaded and verified."""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dealfl.data.dataset import DataFile, Dataset
from dealfl.data.readers import Content
from dealfl.errors import BadBytes, BadInput, DatasetMissing
from dealfl.storage import replace_file

__all__ = [
    "Found",
    "Places",
    "describe_remedy",
    "download",
    "fetch",
    "read_all",
    "read_verified",
    "verify",
]

_TIMEOUT_S = 60


# -- places -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """A file and the place in which it was found."""

    path: Path
    place: str


@dataclass(frozen=True, slots=True)
class Places:
    """The directories that are searched for data files, in this order; downloads go to the cache.

    Parameters
    ----------
    cache : Path or None
        Directory of downloaded files; None if downloads are not possible.
    data : Path, optional
        Directory with the user's own copies of the files.

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
        """Create the places that environment variables name.

        Parameters
        ----------
        environment : mapping of str to str, optional
            DEALFL_CACHE (default: the user's cache directory) and DEALFL_DATA (default: none).

        Returns
        -------
        Places
            The places.
        """
        cache, data = environment.get("DEALFL_CACHE"), environment.get("DEALFL_DATA")
        return cls(Path(cache) if cache else _user_cache(), Path(data) if data else None)

    def named(self) -> dict[str, Path]:
        """Return the directories that are searched.

        Returns
        -------
        dict of str to Path
            Directories by name: "cache" and "DEALFL_DATA".
        """
        both = {"cache": self.cache, "DEALFL_DATA": self.data}
        return {name: path for name, path in both.items() if path is not None}

    def find(self, file: DataFile) -> Found | None:
        """Find a file under any of its accepted names.

        Parameters
        ----------
        file : DataFile
            Catalogued file.

        Returns
        -------
        Found or None
            The file, or None if it is not in any place.
        """
        for place, directory in self.named().items():
            for name in file.accepted_paths:
                if (directory / name).is_file():
                    return Found(directory / name, place)
        return None

    def missing(self, dataset: Dataset) -> list[DataFile]:
        """Return the files of a dataset that are not in any place.

        Parameters
        ----------
        dataset : Dataset
            Entry of the catalog.

        Returns
        -------
        list of DataFile
            The missing files.
        """
        return [file for file in dataset.files if self.find(file) is None]


def _user_cache() -> Path | None:
    try:
        import pooch  # type: ignore[import-untyped]
    except ImportError:
        return None  # without pooch, no file was downloaded
    return Path(pooch.os_cache("dealfl")).expanduser()


# -- reading ------------------------------------------------------------------------------------


def read_all(dataset: Dataset, places: Places, download: bool) -> list[Content]:
    """Return the verified content of every file of a dataset, in the order of the catalog."""
    if places.missing(dataset):
        if not download:
            raise _missing(dataset, places, "downloading is turned off")
        fetch(dataset, places)
    return [read_verified(dataset, file, places) for file in dataset.files]


def read_verified(dataset: Dataset, file: DataFile, places: Places) -> Content:
    """Return the content of one local file, checked against the checksums of the catalog."""
    found = places.find(file)
    if found is None:
        raise _missing(dataset, places, "downloading is turned off")
    remedy = f"delete {found.path} and {describe_remedy(dataset, file)}"
    return verify(file, Content.read(found.path), remedy)


def describe_remedy(dataset: Dataset, file: DataFile) -> str:
    """Return what a user has to do if a file is missing or damaged."""
    return f"run `dealfl datasets fetch {dataset.name}`" if file.url else dataset.how_to_get


def verify(file: DataFile, packed: Content, remedy: str) -> Content:
    """Return the unpacked content, or raise `BadBytes` with `remedy` if no checksum fits."""
    content = packed.unpack(file.member)
    if not file.has_checksum or file.sha256 == _sha256(packed.data) or _fits(file, content):
        return content
    expected, found = _expected_and_found(file, content)
    raise BadBytes(f"{packed.name}: the checksum is {found}, expected {expected}; {remedy}")


def _fits(file: DataFile, content: Content) -> bool:
    if file.content_sha256 and file.content_sha256 == _sha256(content.data):
        return True
    if file.content_md5 and file.content_md5 == _md5(content.data):
        return True
    return file.canonical is not None and file.canonical_sha256 == _sha256(file.canonical(content))


def _expected_and_found(file: DataFile, content: Content) -> tuple[str, str]:
    if file.content_md5 and not file.content_sha256:
        return f"md5 {file.content_md5}", f"md5 {_md5(content.data)}"
    return f"sha256 {file.content_sha256 or file.sha256}", f"sha256 {_sha256(content.data)}"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _missing(dataset: Dataset, places: Places, why: str) -> DatasetMissing:
    missing = places.missing(dataset) or list(dataset.files)
    names = " and ".join(PurePosixPath(file.unpacked_path).name for file in missing)
    url = missing[0].url
    how = (
        f"download {url} and put it, or {names} from it,"
        if url
        else f"{dataset.how_to_get} as {names}"
    )
    named = places.named().values()
    folders = " or ".join(str(directory / missing[0].folder) for directory in named)
    where = folders or f"{missing[0].folder} in a directory that DEALFL_DATA names"
    return DatasetMissing(f"dataset {dataset.name} is missing ({why}): {how} into {where}")


# -- downloading --------------------------------------------------------------------------------


def fetch(dataset: Dataset, places: Places) -> list[Path]:
    """Download the missing files of a dataset into the cache.

    Parameters
    ----------
    dataset : Dataset
        Entry of the catalog.
    places : Places
        Directories to search and to download to.

    Returns
    -------
    list of Path
        Paths of the downloaded files.

    Raises
    ------
    DatasetMissing
        A file has no public address, or the download fails.
    BadBytes
        A downloaded file has the wrong checksum.
    """
    missing = places.missing(dataset)
    if missing and not all(file.url for file in missing):
        raise _missing(dataset, places, "it cannot be downloaded automatically")
    if missing and places.cache is None:
        raise _missing(dataset, places, 'downloads need `pip install "dealfl[datasets]"`')
    paths: list[Path] = []
    for url in dict.fromkeys(file.url for file in missing):
        together = [file for file in missing if file.url == url]
        paths += _fetch_together(dataset, together, places)
    return paths


def _fetch_together(dataset: Dataset, files: list[DataFile], places: Places) -> list[Path]:
    cache, url = places.cache, files[0].url
    assert cache is not None
    assert url is not None
    try:
        archive = download(url, cache)
    except OSError as error:
        raise _missing(dataset, places, f"the download failed: {error}") from error
    contents = {
        file: verify(file, archive, f"{url} has changed; get {file.path} elsewhere")
        for file in files
    }
    try:
        return [_store(content, cache / file.unpacked_path) for file, content in contents.items()]
    except (OSError, BadInput) as error:
        raise _missing(dataset, places, f"the download failed: {error}") from error


def download(url: str, cache: Path) -> Content:
    """Return the content at `url`; raise `OSError` if it is incomplete."""
    try:
        import tqdm  # noqa: F401 - pooch raises a ValueError without it
        from pooch import HTTPDownloader
    except ImportError as error:
        raise DatasetMissing(
            f'downloading {url} needs {error.name}; run `pip install "dealfl[datasets]"`'
        ) from error

    cache.mkdir(parents=True, exist_ok=True)
    # a server that packs or unpacks the file would change its checksum
    as_is = {"Accept-Encoding": "identity"}
    fetched = HTTPDownloader(True, chunk_size=1 << 16, timeout=_TIMEOUT_S, headers=as_is)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=cache) as directory:
        path = Path(directory) / "download"
        fetched(url, str(path), None)
        return Content(url, path.read_bytes())


def _store(content: Content, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return replace_file(path, content.data, mode=0o666)  # public data
