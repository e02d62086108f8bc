"""A fleet: the job, the devices, the data and everything that goes wrong, from a TOML file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from dealfl.datasets import Task
from dealfl.jobs import Document, Job, Plan, job_of, plan_of, selection_of
from dealfl.settings import Amount, Share, nearest, read_section, read_variant
from dealfl.simulate.arrivals import ARRIVALS, Arrival
from dealfl.simulate.availability import AVAILABILITIES, Availability
from dealfl.simulate.dealing import DEALINGS, Dealing
from dealfl.simulate.devices import Devices, read_devices

__all__ = ["Faults", "Fleet", "fleet_of", "read_fleet"]

_MOST_WORKERS = 100_000


class Faults(Struct, frozen=True, kw_only=True):
    """What goes wrong: workers that vanish or straggle in a round, and messages in transit."""

    dropout_share: Annotated[
        Share, Meta(description="share of assigned workers that vanish until the deadline")
    ] = 0.0
    straggler_share: Annotated[Share, Meta(description="share of trainings that take longer")] = 0.0
    straggler_factor: Annotated[
        float, Meta(ge=1, description="factor by which they take longer")
    ] = 10.0
    loss: Annotated[Share, Meta(description="share of messages that are lost")] = 0.0
    repetition: Annotated[Share, Meta(description="share of messages that arrive twice")] = 0.0
    shortest_delay_s: Annotated[Amount, Meta(description="shortest delay of a message")] = 0.0
    longest_delay_s: Annotated[Amount, Meta(description="longest delay of a message")] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything that a simulation needs to know."""

    job: Job
    plan: Plan
    devices: tuple[Devices, ...]
    data: Dealing
    arrival: Arrival
    availability: Availability
    faults: Faults
    selection: dict[str, Any]
    fingerprint: str

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return sum(group.count for group in self.devices)

    def with_scheme(self, scheme: str) -> Fleet:
        """Return the same fleet under another scheme."""
        return replace(self, job=msgspec.structs.replace(self.job, scheme=scheme))

    @property
    def learner(self) -> str:
        """The name of the learner."""
        return self.plan.learner


_SECTIONS = (
    "job",
    "source",
    "features",
    "learner",
    "devices",
    "data",
    "arrival",
    "availability",
    "faults",
    "rewards",
    "selection",
)


def read_fleet(path: str | Path) -> Fleet:
    """Return the fleet that a TOML file describes."""
    return fleet_of(Document.read(path))


def fleet_of(document: Document) -> Fleet:
    """Return the fleet that a document describes; BadInput names key, line and what would do."""
    for name in document.tables:
        if name not in _SECTIONS:
            raise document.error(name, f"no section [{name}]; {nearest(name, _SECTIONS)}")
    devices = _devices(document)
    availability = read_variant(document, AVAILABILITIES, "availability")
    workers = sum(group.count for group in devices)
    job = job_of(document)
    fleet = Fleet(
        job=job,
        plan=plan_of(document, job),
        devices=devices,
        data=read_variant(document, DEALINGS, "data"),
        arrival=read_variant(document, ARRIVALS, "arrival"),
        availability=availability.opened(document.folder, workers),
        faults=read_section(document, Faults, "faults"),
        selection=selection_of(document, job),
        fingerprint=_fingerprint(document),
    )
    _require_agreement(document, fleet)
    return fleet


def _fingerprint(document: Document) -> str:
    """Return what tells one job from another."""
    text = json.dumps(document.tables, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _devices(document: Document) -> tuple[Devices, ...]:
    groups = read_devices(document)
    total = sum(group.count for group in groups)
    if total > _MOST_WORKERS:
        raise document.error(
            "devices.1.count", f"{total} workers are too many; at most {_MOST_WORKERS}"
        )
    return groups


def _require_agreement(document: Document, fleet: Fleet) -> None:
    """Refuse values that are fine alone and not together."""
    subject = fleet.plan.subject
    if fleet.data.wants_labels and subject.task is not Task.CLASSIFICATION:
        raise document.error(
            "data.partition", f"data.partition is by label, but {subject.name} has no labels"
        )
    faults = fleet.faults
    if faults.shortest_delay_s > faults.longest_delay_s:
        raise document.error(
            "faults.shortest_delay_s",
            f"faults.shortest_delay_s is {faults.shortest_delay_s:g}; it takes a number up to "
            f"longest_delay_s, which is {faults.longest_delay_s:g}",
        )
