"""The data of a job: a dataset of the catalog, or the user's own file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dealfl.datasets import CATALOG, Dataset, Task, load
from dealfl.jobs.job import Job
from dealfl.jobs.sources import (
    CsvSource,
    LibsvmSource,
    MemoryRows,
    MemoryTable,
    Quarantine,
    RatingsSource,
    Reading,
    Source,
)
from dealfl.learners import learners_for
from dealfl.settings import Document, OneOf, read_variant

__all__ = ["SOURCES", "Data", "Subject", "read_source", "read_subject"]

SOURCES: tuple[type[Source], ...] = (CsvSource, LibsvmSource, RatingsSource)


@dataclass(frozen=True, slots=True)
class Subject:
    """The data of a job: what is known before any example is read, and how to read the examples.

    Attributes
    ----------
    key
        Identity of the data: the same file in the same state, read in the same way. Subjects are
        equal if their keys are.
    dataset
        Limits of features and targets, from which learners take their settings.
    read
        Function that reads the examples.
    """

    key: str
    dataset: Dataset = field(compare=False)
    read: Callable[[], Reading] = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """Name of the dataset or file."""
        return self.dataset.name

    @property
    def task(self) -> Task:
        """Classification, regression or recommendation."""
        return self.dataset.task

    @property
    def learners(self) -> tuple[str, ...]:
        """Names of the learners that suit the task."""
        return learners_for(self.task)


def read_source(document: Document) -> Source:
    """Read the section [source]; the data file is not opened.

    Parameters
    ----------
    document
        The job file.

    Returns
    -------
    Source
        Description of the data file.

    Raises
    ------
    BadInput
        If a key is unknown, missing or has an invalid value; the message names the line.
    """
    source: Source = read_variant(document, SOURCES, "source")
    return source.settle(document) if isinstance(source, CsvSource) else source


Data = MemoryTable | MemoryRows
"""Data in memory that replaces the file of a [source]."""


def read_subject(document: Document, job: Job, data: Data | None = None) -> Subject:
    """Return the data of a job: a dataset of the catalog, or the file of its [source].

    Parameters
    ----------
    document
        The job file.
    job
        Its sections [job] and [rewards].
    data
        Data in memory that replaces the file of [source]; None reads that file.

    Returns
    -------
    Subject
        The data; examples are read later.

    Raises
    ------
    BadInput
        If the job has both a dataset and a [source], or neither, or if the data file does not
        match its description.

    Examples
    --------
    >>> digits = Document.parse("", "job.toml")
    >>> read_subject(digits, Job(dataset="digits")).learners
    ('tikhonov_classifier', 'naive_bayes', 'neighbors')
    """
    if "source" in document.tables and job.dataset:
        raise document.error(
            "job.dataset",
            f"job.dataset is {job.dataset!r}, but there is a [source], too: remove one of them",
        )
    if "source" in document.tables:
        return _own_subject(document) if data is None else _memory_subject(document, data)
    if not job.dataset:
        raise document.error(
            "job",
            f"the key 'dataset' is missing in job; it takes {OneOf(CATALOG).takes}; or "
            "describe your own file in a section [source] (`dealfl job init FILE` writes it)",
        )
    name = job.dataset
    return Subject(name, CATALOG[name], lambda: Reading(load(name), Quarantine(name)))


def _memory_subject(document: Document, data: Data) -> Subject:
    source: Any = read_source(document)
    source.check(document, data)
    key = f"{data.key} {document.tables['source']}"
    return Subject(key, source.describe(data), partial(source.read, data))


def _own_subject(document: Document) -> Subject:
    source = read_source(document)
    path = document.folder / source.file
    source.check(document, path)
    state = path.stat()
    table = document.tables["source"]
    key = f"{path.resolve()} {state.st_mtime_ns} {state.st_size} {table}"
    return Subject(key, source.describe(path), partial(source.read, path))
