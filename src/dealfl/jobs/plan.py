"""A job that is ready to start: its data, the learner with all its settings, the features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dealfl.data import Domain, Task
from dealfl.data.sources import Reading, source_of_domain
from dealfl.errors import BadInput
from dealfl.features import MAPS, FeatureMap, feature_map
from dealfl.jobs.job import Data, Job, Subject, read_job, read_source, read_subject
from dealfl.learners import LEARNERS, Learner, settings_for
from dealfl.settings import Document, read_keys, read_variant


@dataclass(frozen=True, slots=True)
class Plan:
    """A job that is ready to start; equal plans read equal features."""

    subject: Subject
    learner: str
    features: str
    settings: Mapping[str, Any] = field(compare=False)
    feature_map: FeatureMap | None = field(compare=False, default=None)

    def make(self) -> Learner:
        """Return a learner that has learned nothing."""
        return LEARNERS[self.learner](**self.settings)

    def read(self) -> tuple[Reading, Any]:
        """Return the data that was read, and the features in the form that the learner takes."""
        reading = self.subject.read()
        return reading, self.map(reading.examples.features)

    def map(self, features: Any) -> Any:  # noqa: ANN401 - an array or a csr
        """Return raw features in the form that the learner takes."""
        return features if self.feature_map is None else self.feature_map.transform(features)

    def take(self, X: object) -> Any:  # noqa: ANN401 - an array or a csr
        """Return raw rows in memory as the learner takes them; BadInput names one that is bad."""
        source = self.subject.source
        if source is None:
            domain = self.subject.dataset.domain
            assert domain is not None, f"{self.subject.name} has no domain"
            source = source_of_domain(domain)
        return self.map(source.take(X))


def read_plan(document: Document, job: Job, data: Data | None = None) -> Plan:
    """Return the plan of a job file."""
    return _plan_for(document, job, read_subject(document, job, data))


def plan_without_data(document: Document) -> Plan:
    """Return the plan of a job whose data file may no longer exist."""
    job = read_job(document)
    if "source" not in document.tables:
        return read_plan(document, job)
    source = read_source(document)
    dataset = source.describe(Path(source.file))
    subject = Subject(dataset.name, dataset, partial(_refuse, dataset.name), source)
    return _plan_for(document, job, subject)


def _refuse(name: str) -> Reading:
    raise BadInput(f"the examples of {name} cannot be read here: the plan was made without data")


def _plan_for(document: Document, job: Job, subject: Subject) -> Plan:
    learner = job.learner or subject.learners[0]
    if learner not in subject.learners:
        LEARNERS.get(learner)  # reports a broken plug-in
        suitable = ", ".join(subject.learners)
        raise document.error(
            "job.learner", f"job.learner is {learner!r}; {subject.name} takes: {suitable}"
        )
    made = _features(document, subject)
    proposed = _proposed(subject, learner, made)
    settings = _settings(document, learner, proposed)
    made = made or _declared(subject, learner)
    table = "" if made is None else f"{made.settings()}"
    return Plan(subject, learner, table, settings, made)


def _features(document: Document, subject: Subject) -> FeatureMap | None:
    """Return the map of the section [features]; None without that section."""
    if "features" not in document.tables:
        return None
    domain = subject.dataset.domain
    if subject.task is Task.RECOMMENDATION or domain is None:
        problem = f"{subject.name} is for recommendation: items have no features; remove [features]"
        raise document.error("features", problem)
    made = read_variant(document, MAPS, "features", needs_tag=True, n_inputs=domain.n_features)
    _require_range(document, subject, made, domain)
    try:
        _mapped_domain(made, domain)
    except BadInput as error:
        raise document.error("features", f"features: {error}") from error
    return made


def _require_range(document: Document, subject: Subject, made: FeatureMap, domain: Domain) -> None:
    """Refuse a map that does not take all that the columns are declared to hold."""
    if made.input_range is None:
        return
    low, high = made.input_range
    outside = (np.array(domain.low) < low) | (np.array(domain.high) > high)
    if not outside.any():
        return
    index = int(outside.argmax())
    declared = f"{domain.low[index]:g} … {domain.high[index]:g}"
    taken = f"{low[index]:g} … {high[index]:g}"
    settings = made.settings()
    wider = f"; or declare features.low and features.high as {declared}" * ("high" in settings)
    raise document.error(
        "features",
        f"features: {_column_name(subject, index)} is declared as {declared}, but the map "
        f"{settings['map']!r} takes {taken}; declare the column as {taken}{wider}",
    )


def _column_name(subject: Subject, index: int) -> str:
    names = [] if subject.source is None else subject.source.feature_names
    return f"column {names[index]!r}" if names else f"feature {index + 1}"


def _mapped_domain(made: FeatureMap, domain: Domain) -> Domain:
    """Return the limits of the mapped features; the map must accept the limits of the domain.

    Only columns that pass through can be negative, so the two ends determine the lower limits.
    """
    ends = made.transform(np.array([domain.low, domain.high]))
    low = np.minimum(ends.min(axis=0), 0.0)
    return Domain(tuple(map(float, low)), tuple(map(float, made.feature_bound)))


def _proposed(subject: Subject, learner: str, made: FeatureMap | None) -> dict[str, Any]:
    dataset = subject.dataset
    if made is not None:
        assert dataset.domain is not None
        domain = _mapped_domain(made, dataset.domain)
        dataset = replace(dataset, domain=domain, feature_maps={})
    return settings_for(learner, dataset)


def _settings(document: Document, learner: str, proposed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the learner: the proposed ones, updated by [learner]."""
    made, settings = LEARNERS[learner], dict(proposed)
    given = read_keys(document, made, "learner", document.tables.get("learner", {}))
    for key, value in given.items():
        settings[key] = value
        try:
            made(**settings)
        except BadInput as error:
            raise document.error(f"learner.{key}", f"learner.{key}: {error}") from error
    return settings


def _declared(subject: Subject, learner: str) -> FeatureMap | None:
    table, domain = subject.dataset.feature_map(learner), subject.dataset.domain
    if table is None or domain is None:
        return None
    return feature_map(table, domain.n_features)
