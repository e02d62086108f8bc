"""Data files as verified bytes: found here or downloaded, and never trusted without a checksum."""

import hashlib
from pathlib import Path, PurePosixPath

from dealfl.datasets.content import Content
from dealfl.datasets.datafile import DataFile
from dealfl.datasets.dataset import Dataset
from dealfl.datasets.places import Places
from dealfl.errors import BadBytes, DatasetMissing

__all__ = ["contents_of", "fetch", "how_to_get", "read_verified", "verified"]


def contents_of(dataset: Dataset, places: Places, download: bool) -> list[Content]:
    """Return the verified content of every file of a dataset, in the catalog's order."""
    if places.missing(dataset):
        if not download:
            raise _missing(dataset, places, "no download was asked for")
        fetch(dataset, places)
    return [read_verified(dataset, file, places) for file in dataset.files]


def read_verified(dataset: Dataset, file: DataFile, places: Places) -> Content:
    """Return the content of one file that is here, checked against the catalog's checksums."""
    found = places.find(file)
    if found is None:
        raise _missing(dataset, places, "no download was asked for")
    remedy = f"delete {found.path} and {how_to_get(dataset, file)}"
    return verified(file, Content.read(found.path), remedy)


def how_to_get(dataset: Dataset, file: DataFile) -> str:
    """Return what a user has to do for a file that is missing or damaged."""
    return f"run `dealfl datasets fetch {dataset.name}`" if file.url else dataset.how_to_get


def verified(file: DataFile, packed: Content, remedy: str) -> Content:
    """Return what is inside `packed`; BadBytes if no checksum of the file fits, with `remedy`."""
    content = packed.unpack(file.member)
    if not file.has_checksum or file.sha256 == _sha256(packed.data) or _fits(file, content):
        return content
    expected, found = _expected_and_found(file, content)
    raise BadBytes(f"{packed.name}: checksum is {found}, expected {expected}; {remedy}")


def fetch(dataset: Dataset, places: Places) -> list[Path]:
    """Download the files of a dataset that are missing here into the cache; return their paths."""
    missing = places.missing(dataset)
    if missing and not all(file.url for file in missing):
        raise _missing(dataset, places, "it can not be downloaded automatically")
    if missing and places.cache is None:
        raise _missing(dataset, places, 'downloads need `pip install "dealfl[datasets]"`')
    paths: list[Path] = []
    for url in dict.fromkeys(file.url for file in missing):
        together = [file for file in missing if file.url == url]
        paths += _fetch_together(dataset, together, places)
    return paths


def _missing(dataset: Dataset, places: Places, why: str) -> DatasetMissing:
    missing = places.missing(dataset) or list(dataset.files)
    names = " and ".join(PurePosixPath(file.unpacked_path).name for file in missing)
    url = missing[0].url
    how = (
        f"get {url} and put it, or {names} from it," if url else f"{dataset.how_to_get} as {names}"
    )
    named = places.named().values()
    folders = " or ".join(str(directory / missing[0].folder) for directory in named)
    where = folders or f"{missing[0].folder} below a directory that DEALFL_DATA names"
    return DatasetMissing(f"dataset {dataset.name} is not here ({why}): {how} into {where}")


def _fetch_together(dataset: Dataset, files: list[DataFile], places: Places) -> list[Path]:
    from dealfl.datasets.download import downloaded, store

    assert places.cache is not None
    url = files[0].url
    assert url is not None
    try:
        archive = downloaded(url, places.cache)
        paths = []
        for file in files:
            remedy = f"{url} serves another {file.path} now; get it elsewhere"
            content = verified(file, archive, remedy)
            paths.append(store(content.data, places.cache / file.unpacked_path))
    except OSError as error:
        raise _missing(dataset, places, f"the download failed: {error}") from error
    return paths


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
