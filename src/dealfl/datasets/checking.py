"""Whether the files of a dataset are here, and whether they are what they should be."""

from dataclasses import dataclass
from enum import StrEnum

from dealfl.datasets.content import Content
from dealfl.datasets.datafile import DataFile
from dealfl.datasets.dataset import Dataset
from dealfl.datasets.examples import parsed_of
from dealfl.datasets.files import how_to_get, read_verified
from dealfl.datasets.places import Places
from dealfl.errors import BadInput, DatasetMissing

__all__ = ["Finding", "State", "check"]


class State(StrEnum):
    """What was found of a file."""

    OK = "ok"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one file of a dataset."""

    dataset: str
    file: str
    state: State
    detail: str = ""


def check(dataset: Dataset, places: Places) -> list[Finding]:
    """Return what was found of each file: checksums first, then every row is read.

    >>> from dealfl.datasets import CATALOG
    >>> [finding.state.value for finding in check(CATALOG["movielens"], Places(cache=None))]
    ['missing']
    """
    if dataset.make is not None:
        return [_made(dataset)]
    contents: list[Content] = []
    findings = [_verified(dataset, file, places, contents) for file in dataset.files]
    if len(contents) < len(dataset.files):
        return findings
    try:
        parsed_of(dataset, contents)
    except BadInput as error:
        return [Finding(dataset.name, f.path, State.DAMAGED, str(error)) for f in dataset.files]
    return findings


def _verified(dataset: Dataset, file: DataFile, places: Places, contents: list[Content]) -> Finding:
    try:
        contents.append(read_verified(dataset, file, places))
    except DatasetMissing:
        return Finding(dataset.name, file.path, State.MISSING, how_to_get(dataset, file))
    except BadInput as error:
        return Finding(dataset.name, file.path, State.DAMAGED, str(error))
    found = places.find(file)
    return Finding(dataset.name, file.path, State.OK, str(found.path) if found else "")


def _made(dataset: Dataset) -> Finding:
    assert dataset.make is not None
    try:
        dataset.make(1)
    except DatasetMissing as error:
        return Finding(dataset.name, dataset.origin, State.MISSING, str(error))
    return Finding(dataset.name, dataset.origin, State.OK)
