"""The section [source]: a file of the user's own, with all that must be fixed before training."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dealfl.datasets import CATALOG
from dealfl.jobs.job import Job
from dealfl.jobs.settings import one_of, read_variant
from dealfl.jobs.sources.csv_source import CsvSource
from dealfl.jobs.sources.libsvm_source import LibsvmSource
from dealfl.jobs.sources.ratings_source import RatingsSource
from dealfl.jobs.subject import Subject, catalogued_subject
from dealfl.settings import Document

__all__ = ["SOURCES", "Source", "subject_of"]

Source = CsvSource | LibsvmSource | RatingsSource
SOURCES: Mapping[str, type[Source]] = {
    "csv": CsvSource,
    "libsvm": LibsvmSource,
    "ratings": RatingsSource,
}


def subject_of(document: Document, job: Job) -> Subject:
    """Return what a job learns from: either its dataset or its [source]."""
    if "source" not in document.tables:
        if not job.dataset:
            raise document.error(
                "job",
                f"the key 'dataset' is missing in job; it takes {one_of(CATALOG).what}; or "
                "describe a file of your own in a section [source] (dealfl job init FILE does)",
            )
        return catalogued_subject(job.dataset)
    if job.dataset:
        raise document.error(
            "job.dataset",
            f"job.dataset is {job.dataset!r}, but there is a [source], too: leave out one of them",
        )
    return _own(document)


def _own(document: Document) -> Subject:
    chosen = read_variant(document, SOURCES, "source", "format", "csv")
    path = document.folder / chosen.file
    source = chosen.prepared(document, path)
    state = path.stat()
    table = document.tables["source"]
    key = f"{path.resolve()} {state.st_mtime_ns} {state.st_size} {table}"
    return Subject(key, source.described(path), partial(source.read, path))
