"""Values for keys of a job, given in Python instead of TOML."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import numpy as np

from dealfl.errors import BadInput
from dealfl.settings import Document

__all__ = ["changed_document", "plain_value"]


def changed_document(document: Document, settings: Mapping[str, object]) -> Document:
    """Return a job with other values for some keys; None removes a key or a section.

    >>> job = Document.parse("[job]\\nrounds = 3", "job.toml")
    >>> changed_document(job, {"job.forget_fraction": 0.05, "job.rounds": None}).tables
    {'job': {'forget_fraction': Decimal('0.05')}}
    """
    for key, value in settings.items():
        if value is None:
            document = _without(document, key)
        else:
            document = document.replaced(key, plain_value(value))
    return document


def plain_value(value: object) -> Any:  # noqa: ANN401
    """Return a value as TOML would have given it: exact decimals, plain lists.

    >>> plain_value([0.1, np.int64(3), "deal"])
    [Decimal('0.1'), 3, 'deal']
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {str(key): plain_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain_value(one) for one in value]
    return str(value) if isinstance(value, PurePath) else value


def _without(document: Document, key: str) -> Document:
    tables: dict[str, Any] = copy.deepcopy(dict(document.tables))
    *parents, last = key.split(".")
    place: Any = tables
    for name in parents:
        place = place.get(name, {}) if isinstance(place, dict) else {}
    if not isinstance(place, dict) or last not in place:
        raise BadInput(f"{key!r} cannot be removed: the job does not have it")
    del place[last]
    return dataclasses.replace(document, tables=tables)
