"""A learner for statistics that are at hand: from the job, or else from what shaped them."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dealfl.errors import BadInput, Incompatible, unknown_name
from dealfl.jobs import Document, Plan, Reading, Subject, job_of
from dealfl.jobs.plan import plan_for
from dealfl.jobs.sources.columns import read_column
from dealfl.jobs.sources.csv_source import CsvSource
from dealfl.jobs.sources.source import source_of, subject_of
from dealfl.learners import LEARNERS, Learner
from dealfl.schema import Schema

__all__ = ["learner_for", "learner_of", "plan_without_data"]


def plan_without_data(document: Document) -> Plan:
    """Return the plan of a job whose data may lie elsewhere by now: it can not be read."""
    job = job_of(document)
    if "source" not in document.tables:
        return plan_for(document, job, subject_of(document, job))
    source = source_of(document)
    if isinstance(source, CsvSource):
        columns = tuple((n, read_column(document, n, t)) for n, t in source.columns.items())
        source = replace(source, features=columns)
    dataset = source.described(Path(source.file))
    return plan_for(document, job, Subject(dataset.name, dataset, partial(_unread, dataset.name)))


def _unread(name: str) -> Reading:
    raise BadInput(f"{name} is only described here, not read")


def learner_for(schema: Schema, document: Document | None) -> Learner:
    """Return an empty learner for statistics of that schema, with all settings of the job."""
    if document is None:
        return learner_of(schema)
    made = plan_without_data(document).make()
    try:
        made.schema.require_same(schema)
    except Incompatible as error:
        raise Incompatible(f"{document.name} is not the job of this model: {error}") from None
    return made


def learner_of(schema: Schema) -> Learner:
    """Return an empty learner whose statistics have that schema; what does not shape is default.

    >>> from dealfl.learners import Tikhonov
    >>> learner_of(Tikhonov(3, feature_bound=[1.0, 2.0, 90.0]).schema)
    Tikhonov(n_features=3, penalty=1.0, target_bound=1.0, fraction_bits=30, solver='auto', \
intercept=False, clip=False)
    """
    if schema.learner not in LEARNERS:
        raise unknown_name("learner", schema.learner, LEARNERS)
    kind: Any = LEARNERS[schema.learner]
    shaping = _arguments(schema)
    known = inspect.signature(kind.__init__).parameters
    given = {key: value for key, value in shaping.items() if key in known}
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
