"""What the formats of [source] have in common: keys, their checks, the description for learners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from dealfl.data import Dataset, Task
from dealfl.data.readers import Layout
from dealfl.data.sources.memory import Place, open_table
from dealfl.data.sources.reading import Reading
from dealfl.errors import BadInput
from dealfl.settings import Document, Labels, Positive, Text, nearest

__all__ = ["Classes", "Source", "TargetBound", "Time", "require_columns", "require_one_target"]

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


class Source(Struct, frozen=True, kw_only=True, tag_field="format"):
    """The user's own data, in one of several formats."""

    file: File

    def check(self, document: Document, path: Any) -> None:  # noqa: ANN401
        """Reject a source that contradicts itself or the data.

        Parameters
        ----------
        document
            The job file, for the line numbers in errors.
        path
            The data: a file, its content, or data in memory.

        Raises
        ------
        BadInput
            If keys contradict each other, or if the data lack a column or do not exist.
        """
        raise NotImplementedError

    def describe(self, path: Any) -> Dataset:  # noqa: ANN401
        """Return the properties of the data that learners need.

        Parameters
        ----------
        path
            The data, as for `check`; only its name is used.

        Returns
        -------
        Dataset
            Task, limits of the features, classes or bound of the target, number of items.
        """
        raise NotImplementedError

    def _dataset(self, path: Any, task: Task, columns: int, **facts: Any) -> Dataset:  # noqa: ANN401
        return Dataset(
            name=path.name, task=task, description="the user's own file", rows=0, columns=columns,
            licence="the user's", address=str(path), **facts,
        )  # fmt: skip

    def read(self, path: Any, *, part: bool = False) -> Reading:  # noqa: ANN401
        """Read the examples.

        Parameters
        ----------
        path
            The data, as for `check`.
        part
            Whether the data are a part of a file. A part may have no usable row, and its
            quarantined rows are not logged.

        Returns
        -------
        Reading
            Examples, quarantined rows, and names of owners if the data have them.

        Raises
        ------
        BadInput
            If no row can be used.
        """
        raise NotImplementedError


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
