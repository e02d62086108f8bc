"""The section [features]: a fixed feature map, in place of the one that a dataset declares."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, get_type_hints

import numpy as np

from dealfl.datasets import Domain, Task
from dealfl.errors import BadInput
from dealfl.features import MAPS, FeatureMap, feature_map
from dealfl.jobs.settings import Kind, one_of, read_value, require_keys
from dealfl.jobs.subject import Subject
from dealfl.settings import Document

__all__ = ["map_keys", "mapped_domain", "read_features"]


def map_keys(name: str) -> dict[str, tuple[Kind, object]]:
    """Return what each key of a map takes, and its default (dataclasses.MISSING if required).

    >>> kind, default = map_keys("thermometer")["levels"]
    >>> kind.what, default
    ('a whole number from 1 to 4096', 8)
    """
    hints = get_type_hints(MAPS[name], include_extras=True)
    fields = [field for field in dataclasses.fields(MAPS[name]) if field.name != "n_inputs"]
    return {
        field.name: (_kind(hints[field.name].__metadata__[0]), field.default) for field in fields
    }


def _kind(declared: Any) -> Kind:  # noqa: ANN401 - one of features.kinds
    return Kind(str(declared), lambda value: declared.read(_plain(value)))


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    return [_plain(part) for part in value] if isinstance(value, list) else value


def read_features(document: Document, subject: Subject) -> FeatureMap | None:
    """Return the map of the section [features]; None if there is none."""
    if "features" not in document.tables:
        return None
    if subject.task is Task.RECOMMENDATION:
        problem = f"{subject.name} is for recommendation: items have no features; leave it out"
        raise document.error("features", problem)
    given = document.tables["features"]
    if not isinstance(given, Mapping):
        raise document.error("features", "features takes a section of keys and values")
    every = {"map", *(key for name in MAPS for key in map_keys(name))}
    require_keys(document, "features", given, every)
    if "map" not in given:
        known = one_of(MAPS).what
        raise document.error("features", f"the key 'map' is missing in features; it takes {known}")
    name = read_value(document, one_of(MAPS), "features.map", given["map"])
    settings = _settings(document, name, given)
    assert subject.dataset.domain is not None, f"{subject.name} has no domain"
    try:
        made = feature_map({"map": name, **settings}, subject.dataset.domain.n_features)
        mapped_domain(made, subject.dataset.domain)
    except BadInput as error:
        raise document.error("features", f"features: {error}") from error
    return made


def _settings(document: Document, name: str, given: Mapping[str, Any]) -> dict[str, object]:
    keys = map_keys(name)
    require_keys(document, "features", given, {"map", *keys})
    settings: dict[str, object] = {}
    for key, value in given.items():
        if key == "map":
            continue
        settings[key] = read_value(document, keys[key][0], f"features.{key}", value)
    for key, (kind, default) in keys.items():
        if key not in settings and default is dataclasses.MISSING:
            problem = f"the key {key!r} is missing in features; it takes {kind.what}"
            raise document.error("features", problem)
    return settings


def mapped_domain(made: FeatureMap, domain: Domain) -> Domain:
    """Return the limits of the features that a map gives; it must take the domain's own limits.

    Only columns that pass through can be negative, so the two ends tell how low features go.
    """
    ends = made.transform(np.array([domain.low, domain.high]))
    low = np.minimum(ends.min(axis=0), 0.0)
    return Domain(tuple(map(float, low)), tuple(map(float, made.feature_bound)))
