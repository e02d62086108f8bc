"""Every error this package raises on purpose.

DealError
├── BadInput (also a ValueError)       what was passed in can not be used; nothing was changed
│   ├── OutOfBounds                    a value outside the bounds declared for it
│   ├── UnknownName                    no learner, dataset, feature map … of that name
│   ├── Incompatible                   statistics of other settings than the model's
│   ├── Impossible                     statistics that no examples can have
│   └── BadBytes                       truncated, hostile or damaged bytes
├── NotLearned (also a ValueError)     forgetting, or predicting from, what was never learned
├── WriteFailed                        the disk is full or fails; the old file is still there
└── DatasetMissing                     a dataset is neither here nor to be had
"""

from collections.abc import Iterable

__all__ = [
    "BadBytes",
    "BadInput",
    "DatasetMissing",
    "DealError",
    "Impossible",
    "Incompatible",
    "NotLearned",
    "OutOfBounds",
    "UnknownName",
    "WriteFailed",
    "unknown_name",
]


class DealError(Exception):
    """Any error of this package that a caller may want to handle."""


class BadInput(DealError, ValueError):
    """What was passed in can not be used; nothing was changed."""


class OutOfBounds(BadInput):
    """A value outside the bounds declared for it."""


class UnknownName(BadInput):
    """A name that nothing is registered under."""


class Incompatible(BadInput):
    """Statistics that were made with other settings than the model's."""


class Impossible(BadInput):
    """Statistics that no set of examples can have."""


class BadBytes(BadInput):
    """Bytes that are truncated, hostile or damaged."""


class NotLearned(DealError, ValueError):
    """Something is asked of examples that were never learned."""


class WriteFailed(DealError):
    """A file cannot be written because the disk is full or fails; the old file is still there."""


class DatasetMissing(DealError):
    """A dataset is neither in the cache, nor in DEALFL_DATA, nor to be downloaded."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownName:
    """Return the error for a name that is not among `known`.

    >>> raise unknown_name("dataset", "mnist", ["digits", "covtype"])
    Traceback (most recent call last):
    dealfl.errors.UnknownName: no dataset called 'mnist'; known: covtype, digits
    """
    return UnknownName(f"no {kind} called {name!r}; known: {', '.join(sorted(known))}")
