"""Common parts of the kinds of [source]: keys, their checks, the description for learners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from dealfl.datasets import Dataset, Domain, Task
from dealfl.datasets.readers import Layout
from dealfl.errors import BadInput
from dealfl.jobs.sources.memory import MemoryRows, Place, open_table
from dealfl.settings import Document, Labels, Positive, Text, nearest

__all__ = [
    "Classes", "File", "TargetBound", "Time", "describe_table", "require_columns",
    "require_one_target",
]  # fmt: skip

File = Annotated[
    Text,
    Meta(
        description="path of the data file, relative to the job file or absolute; .gz, .xz, .bz2 "
        "and .zip are unpacked"
    ),
]
Time = Annotated[Text, Meta(description="column of numbers or ISO dates that orders arrival")]
Classes = Annotated[
    tuple[Any, ...],
    Labels(2),
    Meta(description="values the target can take; required for classification only"),
]
TargetBound = Annotated[
    Positive, Meta(description="largest magnitude of the target; required for regression only")
]


def require_columns(
    document: Document, path: Place, layout: Layout, wanted: Mapping[str, str]
) -> None:
    """Reject keys that name columns which the file does not have."""
    try:
        names = open_table(path, layout).read_names()
    except BadInput as error:
        raise document.error("source.file", str(error)) from error
    for key, name in wanted.items():
        if name not in names:
            problem = f"{path.name} has no column {name!r}; {nearest(name, names)}"
            raise document.error(key, problem)


def require_one_target(document: Document, classes: tuple[Any, ...], bound: float) -> None:
    """Reject a source that declares neither classes nor a bound of its target, or both."""
    if bool(classes) == bool(bound):
        given = "both are given" if classes else "neither is given"
        raise document.error(
            "source.target_bound" if classes else "source",
            f"source takes either classes (for classification) or target_bound (for "
            f"regression); {given}",
        )


def describe_table(
    path: Place | MemoryRows, domain: Domain, classes: tuple[Any, ...], target_bound: float
) -> Dataset:
    """Return the description of a table, from which learners take their settings."""
    return Dataset(
        name=path.name,
        task=Task.CLASSIFICATION if classes else Task.REGRESSION,
        description="the user's own file",
        rows=0,
        columns=domain.n_features,
        licence="the user's",
        address=str(path),
        domain=domain,
        classes=classes,
        target_bound=target_bound,
    )
