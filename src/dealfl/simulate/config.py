"""A fleet: the job, the devices, the data and everything that goes wrong, from a TOML file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dealfl.datasets import Task
from dealfl.jobs import Document, Job, Plan, plan_of
from dealfl.jobs.rewards import rewards_of
from dealfl.jobs.selection import selection_of
from dealfl.jobs.settings import nearest, number, read_section, read_variant, setting, share
from dealfl.server import RewardWeights
from dealfl.simulate.arrivals import ARRIVALS, Arrival
from dealfl.simulate.availability import AVAILABILITIES, Availability
from dealfl.simulate.dealing import DEALINGS, Dealing
from dealfl.simulate.devices import Devices, read_devices

__all__ = ["Faults", "Fleet", "fleet_of", "read_fleet"]

_MOST_WORKERS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong: workers that vanish or straggle in a round, and messages on their way."""

    dropout_share: float = setting(share(), 0.0)
    straggler_share: float = setting(share(), 0.0)
    straggler_factor: float = setting(number(1.0), 10.0)
    loss: float = setting(share(), 0.0)
    repetition: float = setting(share(), 0.0)
    shortest_delay_s: float = setting(number(0.0), 0.0)
    longest_delay_s: float = setting(number(0.0), 0.0)


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
    rewards: RewardWeights
    selection: dict[str, Any]
    fingerprint: str

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return sum(group.count for group in self.devices)

    def with_scheme(self, scheme: str) -> Fleet:
        """Return the same fleet under another scheme."""
        return replace(self, job=replace(self.job, scheme=scheme))

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
    availability = read_variant(document, AVAILABILITIES, "availability", "kind", "always")
    workers = sum(group.count for group in devices)
    job = read_section(document, Job, "job", document.tables.get("job", {}))
    fleet = Fleet(
        job=job,
        plan=plan_of(document, job),
        devices=devices,
        data=read_variant(document, DEALINGS, "data", "partition", "uniform"),
        arrival=read_variant(document, ARRIVALS, "arrival", "pattern", "at_once"),
        availability=availability.opened(document.folder, workers),
        faults=read_section(document, Faults, "faults", document.tables.get("faults", {})),
        rewards=rewards_of(document),
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
    tables = document.tables.get("devices", [])
    if not isinstance(tables, list) or not tables:
        problem = "there are no [[devices]]; give at least one such section with a count"
        raise document.error("devices", problem)
    groups = [read_devices(document, place, table) for place, table in enumerate(tables, 1)]
    total = sum(group.count for group in groups)
    if total > _MOST_WORKERS:
        raise document.error(
            "devices.1.count", f"{total} workers are too many; at most {_MOST_WORKERS}"
        )
    return tuple(groups)


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
