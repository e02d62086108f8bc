"""The section [learner]: settings of the learner in place of those that were proposed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from dealfl.errors import BadInput
from dealfl.jobs.lists import numbers, yes_no
from dealfl.jobs.settings import Kind, nearest, number, read_value, text, whole
from dealfl.learners import LEARNERS
from dealfl.settings import Document

__all__ = ["kind_of", "learner_keys", "read_tuning"]

_NO_DEFAULT = (inspect.Parameter.empty, None)  # of arguments that data or the program give


def learner_keys(learner: str) -> dict[str, tuple[Kind, object]]:
    """Return what each key takes, and its default, from the learner's constructor.

    >>> kind, default = learner_keys("tikhonov")["penalty"]
    >>> kind.what, default
    ('a number from 0 on', 1.0)
    """
    parameters = inspect.signature(LEARNERS[learner].__init__).parameters
    return {
        name: (kind_of(parameter), parameter.default)
        for name, parameter in parameters.items()
        if parameter.default not in _NO_DEFAULT
    }


def kind_of(parameter: inspect.Parameter) -> Kind:
    """Return what a parameter takes, by its annotation and default."""
    if "ArrayLike" in str(parameter.annotation):
        return numbers()
    for kind, takes in ((bool, yes_no()), (int, whole(0)), (float, number(0.0))):
        if isinstance(parameter.default, kind):
            return takes
    return text()


def read_tuning(document: Document, learner: str, proposed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a learner: those proposed, with those of [learner] in their place."""
    given = document.tables.get("learner", {})
    if not isinstance(given, Mapping):
        raise document.error("learner", "learner takes a section of keys and values")
    keys, settings = learner_keys(learner), dict(proposed)
    for key, value in given.items():
        place = f"learner.{key}"
        if key not in keys:
            raise document.error(
                place, f"no key {key!r} in learner ({learner}); {_advice(key, keys)}"
            )
        settings[key] = read_value(document, keys[key][0], place, value)
        try:
            LEARNERS[learner](**settings)
        except BadInput as error:
            raise document.error(place, f"{place}: {error}") from error
    return settings


def _advice(key: str, keys: Mapping[str, object]) -> str:
    return nearest(key, keys) if keys else "it has no settings; leave the section out"
