"""A learner for statistics that are at hand: from the job, or else from what shaped them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dealfl.errors import BadInput, Incompatible
from dealfl.jobs import Document, Plan, Reading, Subject, job_of, read_source, read_subject
from dealfl.jobs.plan import plan_for
from dealfl.learners import Learner, from_schema
from dealfl.schema import Schema

__all__ = ["learner_for", "plan_without_data"]


def plan_without_data(document: Document) -> Plan:
    """Return the plan of a job whose data may lie elsewhere by now: it can not be read."""
    job = job_of(document)
    if "source" not in document.tables:
        return plan_for(document, job, read_subject(document, job))
    source = read_source(document)
    dataset = source.describe(Path(source.file))
    return plan_for(document, job, Subject(dataset.name, dataset, partial(_unread, dataset.name)))


def _unread(name: str) -> Reading:
    raise BadInput(f"{name} is only described here, not read")


def learner_for(schema: Schema, document: Document | None) -> Learner:
    """Return an empty learner for statistics of that schema, with all settings of the job."""
    if document is None:
        return from_schema(schema)
    made = plan_without_data(document).make()
    try:
        made.schema.require_same(schema)
    except Incompatible as error:
        raise Incompatible(f"{document.name} is not the job of this model: {error}") from None
    return made
