"""What a job learns from: a dataset of the catalog, or a file of the user's own."""

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
)
from dealfl.learners import learners_for
from dealfl.settings import Document, OneOf, read_variant

__all__ = ["SOURCES", "Data", "Source", "Subject", "read_source", "read_subject"]

Source = CsvSource | LibsvmSource | RatingsSource
SOURCES: tuple[type[Source], ...] = (CsvSource, LibsvmSource, RatingsSource)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known before any example is read, and how to read them.

    `dataset` holds the limits of features and targets, from which learners take their settings;
    two subjects are equal if their `key` is: the same file in the same state, read the same way.
    """

    key: str
    dataset: Dataset = field(compare=False)
    read: Callable[[], Reading] = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.dataset.name

    @property
    def task(self) -> Task:
        """What is to be learned."""
        return self.dataset.task

    @property
    def learners(self) -> tuple[str, ...]:
        """The names of the learners that fit the task."""
        return learners_for(self.task)


def read_source(document: Document) -> Source:
    """Return the section [source]; the file it names is not looked at."""
    source: Source = read_variant(document, SOURCES, "source")
    return source.settle(document) if isinstance(source, CsvSource) else source


Data = MemoryTable | MemoryRows
"""Data in memory, in place of the file that a [source] names."""


def read_subject(document: Document, job: Job, data: Data | None = None) -> Subject:
    """Return what a job learns from: either its dataset or its [source].

    >>> digits = Document.parse("", "job.toml")
    >>> read_subject(digits, Job(dataset="digits")).learners
    ('tikhonov_classifier', 'naive_bayes', 'neighbors')
    """
    if "source" in document.tables and job.dataset:
        raise document.error(
            "job.dataset",
            f"job.dataset is {job.dataset!r}, but there is a [source], too: leave out one of them",
        )
    if "source" in document.tables:
        return _own_subject(document) if data is None else _memory_subject(document, data)
    if not job.dataset:
        raise document.error(
            "job",
            f"the key 'dataset' is missing in job; it takes {OneOf(CATALOG).takes}; or "
            "describe a file of your own in a section [source] (dealfl job init FILE does)",
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
