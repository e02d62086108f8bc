"""A learner for statistics that are at hand: from the job, or else from what shaped them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from dealfl.errors import BadInput, Incompatible, unknown_name
from dealfl.jobs import Document, Job, plan_of
from dealfl.jobs.settings import read_section
from dealfl.learners import LEARNERS, Learner
from dealfl.schema import Schema

__all__ = ["job_of", "learner_for", "learner_of"]


def job_of(document: Document) -> Job:
    """Return the section [job] of a job file."""
    return read_section(document, Job, "job", document.tables.get("job", {}))


def learner_for(schema: Schema, document: Document | None) -> Learner:
    """Return an empty learner for statistics of that schema, with the penalties of the job."""
    if document is None:
        return learner_of(schema)
    try:
        made = plan_of(document, job_of(document)).make()
    except BadInput:  # its data may lie elsewhere by now, and is not needed here
        return learner_of(schema, _chosen(document))
    if not made.schema.same(schema):
        raise Incompatible(
            f"{document.name} is not the job of this model: {_first_difference(made, schema)}"
        )
    return made


def _first_difference(made: Learner, schema: Schema) -> str:
    try:
        made.schema.require_same(schema)
    except Incompatible as error:
        return str(error)
    return "their schemas differ"


def _chosen(document: Document) -> dict[str, Any]:
    given = document.tables.get("learner", {})
    found = given if isinstance(given, Mapping) else {}
    return {key: float(v) if isinstance(v, Decimal) else v for key, v in found.items()}


def learner_of(schema: Schema, chosen: Mapping[str, Any] | None = None) -> Learner:
    """Return an empty learner whose statistics have that schema; what does not shape is `chosen`.

    >>> from dealfl.learners import Tikhonov
    >>> learner_of(Tikhonov(3, feature_bound=[1.0, 2.0, 90.0]).schema, {"penalty": 0.5})
    Tikhonov(n_features=3, penalty=0.5, target_bound=1.0, fraction_bits=30, solver='auto', \
intercept=False, clip=False)
    """
    if schema.learner not in LEARNERS:
        raise unknown_name("learner", schema.learner, LEARNERS)
    kind: Any = LEARNERS[schema.learner]
    shaping = _arguments(schema)
    known = inspect.signature(kind.__init__).parameters
    others = {key: value for key, value in (chosen or {}).items() if key not in shaping}
    given = {key: value for key, value in {**others, **shaping}.items() if key in known}
    try:
        made: Learner = kind(**given)
    except TypeError as error:
        raise BadInput(
            f"a {schema.learner} can not be made from its statistics alone ({error}); "
            "give its job file"
        ) from None
    made.schema.require_same(schema)
    return made


def _arguments(schema: Schema) -> dict[str, Any]:
    """Return the settings of a schema as arguments; a bound is the largest of its exponent."""
    found: dict[str, Any] = {}
    for name, value in schema.settings.items():
        if name.endswith("_exponent"):
            exponents = value if isinstance(value, list) else [value]
            bounds = [2.0 ** int(exponent or 0) for exponent in exponents]
            found[name.replace("_exponent", "_bound")] = bounds if len(bounds) > 1 else bounds[0]
        else:
            found[name] = value
    return found
