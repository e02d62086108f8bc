"""Files of datasets: where they are, how they are downloaded, verified and loaded."""

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from dealfl.data.catalog import find_dataset
from dealfl.data.dataset import DataFile, Dataset
from dealfl.data.examples import Examples
from dealfl.data.readers import Content, Interactions, Table, as_text
from dealfl.errors import BadBytes, BadInput, DatasetMissing
from dealfl.storage import replace_file

_TIMEOUT_S = 60


# -- directories --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file, and the name of the directory that has it."""

    path: Path
    directory: str


@dataclass(frozen=True, slots=True)
class Directories:
    """The directories that are searched for data files, in this order; downloads go to the cache.

    Examples
    --------
    >>> directories = Directories.from_environment({"DEALFL_CACHE": "here", "DEALFL_DATA": "there"})
    >>> [(name, str(path)) for name, path in directories.named().items()]
    [('cache', 'here'), ('DEALFL_DATA', 'there')]
    """

    cache: Path | None
    data: Path | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Directories":
        """Return the directories that environment variables name."""
        cache, data = environment.get("DEALFL_CACHE"), environment.get("DEALFL_DATA")
        return cls(Path(cache) if cache else _user_cache(), Path(data) if data else None)

    def named(self) -> dict[str, Path]:
        """Return the directories that are searched."""
        both = {"cache": self.cache, "DEALFL_DATA": self.data}
        return {name: path for name, path in both.items() if path is not None}

    def find(self, file: DataFile) -> LocalFile | None:
        """Find a file under any of its accepted names."""
        for directory, path in self.named().items():
            for name in file.accepted_paths:
                if (path / name).is_file():
                    return LocalFile(path / name, directory)
        return None

    def missing(self, dataset: Dataset) -> list[DataFile]:
        """Return the files of a dataset that are not in any of them."""
        return [file for file in dataset.files if self.find(file) is None]


def _user_cache() -> Path | None:
    try:
        import pooch  # type: ignore[import-untyped]
    except ImportError:
        return None  # without pooch, no file was downloaded
    return Path(pooch.os_cache("dealfl")).expanduser()


# -- reading ------------------------------------------------------------------------------------


def read_all(dataset: Dataset, directories: Directories, download: bool) -> list[Content]:
    """Return the verified content of every file of a dataset, in the order of the catalog."""
    if directories.missing(dataset):
        if not download:
            raise _missing(dataset, directories, "downloading is turned off")
        fetch(dataset, directories)
    return [read_verified(dataset, file, directories) for file in dataset.files]


def read_verified(dataset: Dataset, file: DataFile, directories: Directories) -> Content:
    """Return the content of one local file, checked against the checksums of the catalog."""
    local = directories.find(file)
    if local is None:
        raise _missing(dataset, directories, "downloading is turned off")
    remedy = f"delete {local.path} and {describe_remedy(dataset, file)}"
    return verify(file, Content.read(local.path), remedy)


def describe_remedy(dataset: Dataset, file: DataFile) -> str:
    """Return what a user has to do if a file is missing or damaged."""
    return f"run `dealfl datasets fetch {dataset.name}`" if file.url else dataset.how_to_get


def verify(file: DataFile, packed: Content, remedy: str) -> Content:
    """Return the unpacked content, or raise `BadBytes` with `remedy` if no checksum fits."""
    content = as_text(packed.unpack(file.member))
    if not file.has_checksum or file.sha256 == _sha256(packed.data) or _fits(file, content):
        return content
    data = content.data
    checksum, expected = f"sha256 {_sha256(data)}", f"sha256 {file.content_sha256 or file.sha256}"
    if file.content_md5 and not file.content_sha256:
        checksum, expected = f"md5 {_md5(data)}", f"md5 {file.content_md5}"
    raise BadBytes(f"{packed.name}: the checksum is {checksum}, expected {expected}; {remedy}")


def _fits(file: DataFile, content: Content) -> bool:
    if file.content_sha256 == _sha256(content.data) or file.content_md5 == _md5(content.data):
        return True
    return file.canonical is not None and file.canonical_sha256 == _sha256(file.canonical(content))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _missing(dataset: Dataset, directories: Directories, why: str) -> DatasetMissing:
    missing = directories.missing(dataset) or list(dataset.files)
    names = " and ".join(
        " or ".join(file.published) or PurePosixPath(file.unpacked_path).name for file in missing
    )
    url = missing[0].url
    how = (
        f"download {url} and put it, or {names} from it,"
        if url
        else f"{dataset.how_to_get} as {names}"
    )
    named = directories.named().values()
    folders = " or ".join(str(directory / missing[0].folder) for directory in named)
    where = folders or f"{missing[0].folder} in a directory that DEALFL_DATA names"
    return DatasetMissing(f"dataset {dataset.name} is missing ({why}): {how} into {where}")


# -- downloading --------------------------------------------------------------------------------


def fetch(dataset: Dataset, directories: Directories) -> list[Path]:
    """Download the missing files of a dataset into the cache."""
    missing = directories.missing(dataset)
    if missing and not all(file.url for file in missing):
        raise _missing(dataset, directories, "it cannot be downloaded automatically")
    if missing and directories.cache is None:
        raise _missing(dataset, directories, 'downloads need `pip install "dealfl[datasets]"`')
    paths: list[Path] = []
    for url in dict.fromkeys(file.url for file in missing):
        together = [file for file in missing if file.url == url]
        paths += _fetch_together(dataset, together, directories)
    return paths


def _fetch_together(
    dataset: Dataset, files: list[DataFile], directories: Directories
) -> list[Path]:
    cache, url = directories.cache, files[0].url
    assert cache is not None
    assert url is not None
    try:
        archive = download(url, cache)
    except OSError as error:
        reason = _describe_failure(error, url)
        raise _missing(dataset, directories, f"the download failed: {reason}") from error
    contents = {
        file: verify(file, archive, f"{url} has changed; get {file.path} elsewhere")
        for file in files
    }
    try:
        return [_store(content, cache / file.unpacked_path) for file, content in contents.items()]
    except (OSError, BadInput) as error:
        raise _missing(dataset, directories, f"the download failed: {error}") from error


def _describe_failure(error: OSError, url: str) -> str:
    """Return why a download failed, without the words of the libraries where nobody answers."""
    from requests import ConnectionError as Unreachable

    return (
        f"{urlsplit(url).hostname} cannot be reached" if type(error) is Unreachable else str(error)
    )


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


def load(
    name: str,
    *,
    rows: int | None = None,
    directories: Directories | None = None,
    download: bool = True,
) -> Examples:
    """Load a dataset of the catalog from the cache, DEALFL_DATA or its public address.

    Examples
    --------
    >>> load("yearpredictionmsd-like", rows=5).features.shape
    (5, 90)
    """
    dataset = find_dataset(name)
    if rows is not None and rows < 1:
        raise BadInput(f"rows is {rows}; it must be ≥ 1, or None for all rows of {name}")
    return load_entry(dataset, rows, directories or Directories.from_environment(), download)


def load_entry(
    dataset: Dataset, rows: int | None, directories: Directories, download: bool
) -> Examples:
    """Return the examples of a catalog entry; it does not need to be in the catalog."""
    if dataset.make is not None:
        return _from_table(dataset.name, dataset.make(rows or dataset.rows), None)
    parsed = _parse(dataset, read_all(dataset, directories, download))
    if isinstance(parsed, Table):
        return _from_table(dataset.name, parsed, rows)
    examples = parsed.histories(dataset.liked_from, dataset.name)
    items, owners, times = examples.histories[:rows], examples.owners, examples.times
    assert owners is not None, "a history has an owner"
    kept = None if times is None else times[: items.nnz]
    return replace(examples, features=items, owners=owners[:rows], times=kept)


def _parse(dataset: Dataset, contents: Sequence[Content]) -> Table | Interactions:
    """Return the content of a dataset's files; raise `BadBytes` if the number of rows is wrong."""
    assert dataset.read is not None, f"{dataset.name} is catalogued without a reader"
    parsed = dataset.read(contents)
    expected = sum(file.rows for file in dataset.files)
    if parsed.records != expected:
        raise BadBytes(
            f"dataset {dataset.name} has {parsed.records} rows, expected {expected}; "
            f"this is not the published file: get it again from {dataset.address}"
        )
    return parsed


def _from_table(name: str, table: Table, rows: int | None) -> Examples:
    test = _from_table(name, table.test, None) if table.test else None
    return Examples(name, table.features[:rows], table.targets[:rows], test=test)


# -- checking -----------------------------------------------------------------------------------


class State(StrEnum):
    """The state of a data file."""

    OK = "ok"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of checking one file of a dataset."""

    dataset: str
    file: str
    state: State
    detail: str = ""


def check(dataset: Dataset, directories: Directories) -> list[Finding]:
    """Check the files of a dataset: first the checksums, then every row.

    Examples
    --------
    >>> from dealfl.data import CATALOG
    >>> [finding.state.value for finding in check(CATALOG["movielens"], Directories(cache=None))]
    ['missing']
    """
    if dataset.make is not None:
        return [_check_made(dataset)]
    contents: list[Content] = []
    findings = [_check_file(dataset, file, directories, contents) for file in dataset.files]
    if len(contents) < len(dataset.files):
        return findings
    try:
        _parse(dataset, contents)
    except BadInput as error:
        return [Finding(dataset.name, f.path, State.DAMAGED, str(error)) for f in dataset.files]
    return findings


def _check_file(
    dataset: Dataset, file: DataFile, directories: Directories, contents: list[Content]
) -> Finding:
    try:
        contents.append(read_verified(dataset, file, directories))
    except DatasetMissing:
        return Finding(dataset.name, file.path, State.MISSING, describe_remedy(dataset, file))
    except BadInput as error:
        return Finding(dataset.name, file.path, State.DAMAGED, str(error))
    local = directories.find(file)
    return Finding(dataset.name, file.path, State.OK, str(local.path) if local else "")


def _check_made(dataset: Dataset) -> Finding:
    assert dataset.make is not None
    try:
        dataset.make(1)
    except DatasetMissing as error:
        return Finding(dataset.name, dataset.origin, State.MISSING, str(error))
    return Finding(dataset.name, dataset.origin, State.OK)
