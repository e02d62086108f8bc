"""The section [source]: a file of the user's own, with all that must be fixed before training."""

from __future__ import annotations

from functools import partial

from dealfl.datasets import CATALOG
from dealfl.jobs.job import Job
from dealfl.jobs.sources.csv_source import CsvSource
from dealfl.jobs.sources.libsvm_source import LibsvmSource
from dealfl.jobs.sources.ratings_source import RatingsSource
from dealfl.jobs.subject import Subject, catalogued_subject
from dealfl.settings import Document, OneOf, read_variant

__all__ = ["SOURCES", "Source", "source_of", "subject_of"]

Source = CsvSource | LibsvmSource | RatingsSource
SOURCES: tuple[type[Source], ...] = (CsvSource, LibsvmSource, RatingsSource)


def subject_of(document: Document, job: Job) -> Subject:
    """Return what a job learns from: either its dataset or its [source]."""
    if "source" not in document.tables:
        if not job.dataset:
            raise document.error(
                "job",
                f"the key 'dataset' is missing in job; it takes {OneOf(CATALOG).takes}; or "
                "describe a file of your own in a section [source] (dealfl job init FILE does)",
            )
        return catalogued_subject(job.dataset)
    if job.dataset:
        raise document.error(
            "job.dataset",
            f"job.dataset is {job.dataset!r}, but there is a [source], too: leave out one of them",
        )
    return _own(document)


def source_of(document: Document) -> Source:
    """Return the section [source]; the file it names is not looked at."""
    return read_variant(document, SOURCES, "source")


def _own(document: Document) -> Subject:
    chosen = source_of(document)
    path = document.folder / chosen.file
    source = chosen.prepared(document, path)
    state = path.stat()
    table = document.tables["source"]
    key = f"{path.resolve()} {state.st_mtime_ns} {state.st_size} {table}"
    return Subject(key, source.described(path), partial(source.read, path))
