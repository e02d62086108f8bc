"""A fleet: the job, the devices, the data and the faults, read from a TOML file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from dealfl.datasets import Task
from dealfl.errors import BadInput
from dealfl.jobs import Data, Document, Job, Plan, read_job, read_plan, read_selection
from dealfl.power import PHONES, Phone, load_phone
from dealfl.settings import (
    Amount,
    Count,
    Formerly,
    Positive,
    Share,
    Text,
    nearest,
    read_section,
    read_tables,
    read_variant,
)
from dealfl.simulate.schedules import ARRIVALS, AVAILABILITIES, Arrival, Availability
from dealfl.simulate.split import PARTITIONS, Partition
from dealfl.worker import MIN_BATTERY

__all__ = ["SECTIONS", "Devices", "Faults", "Fleet", "read_fleet"]

_MAX_WORKERS = 100_000
_MISSED = 3  # announcements, before a worker counts as asleep
_EXPLICIT = ("capacity_j", "operations_per_s", "joules_per_operation", "wake_j")


class Devices(Struct, frozen=True, kw_only=True):
    """Devices of one kind: a phone with a profile, or explicit values."""

    count: Annotated[Count, Meta(description="number of these devices")]
    phone: Annotated[
        Text, Meta(description="phone of `dealfl devices`, or path of a phone's TOML file")
    ] = ""
    device: Annotated[Text, Meta(description="name of the kind; by default the phone's")] = "phone"
    capacity_j: Annotated[Amount, Meta(description="energy of a full battery")] = 40_000.0
    battery: Annotated[
        Share, Meta(description="charge of the battery at the start, as a share")
    ] = 1.0
    charging_share: Annotated[
        Share, Meta(description="share of these devices that are on a charger")
    ] = 0.0
    charging_w: Annotated[Amount, Meta(description="power of the charger")] = 0.0
    idle_w: Annotated[Amount, Meta(description="power drawn while idle")] = 0.0
    min_battery: Annotated[
        Share,
        Formerly("least_battery"),
        Meta(description="charge below which a device declines to train"),
    ] = MIN_BATTERY
    operations_per_s: Annotated[
        Positive, Meta(description="multiply-adds of the learner per second")
    ] = 1e8
    joules_per_operation: Annotated[Amount, Meta(description="energy of a multiply-add")] = 1e-9
    wake_j: Annotated[Amount, Meta(description="energy of a wake-up, including the radio")] = 0.0
    profile: Phone | None = None


class Faults(Struct, frozen=True, kw_only=True):
    """Faults: workers that drop out or take longer, and messages that are lost or late."""

    dropout_share: Annotated[
        Share, Meta(description="share of assigned workers that drop out until the deadline")
    ] = 0.0
    straggler_share: Annotated[Share, Meta(description="share of trainings that are delayed")] = 0.0
    straggler_factor: Annotated[
        float, Meta(ge=1, description="factor by which a delayed training takes longer")
    ] = 10.0
    loss: Annotated[Share, Meta(description="share of messages that are lost")] = 0.0
    repetition: Annotated[Share, Meta(description="share of messages that arrive twice")] = 0.0
    min_delay_s: Annotated[
        Amount, Formerly("shortest_delay_s"), Meta(description="shortest delay of a message")
    ] = 0.0
    max_delay_s: Annotated[
        Amount, Formerly("longest_delay_s"), Meta(description="longest delay of a message")
    ] = 0.0
    announce_every_s: Annotated[
        Positive,
        Meta(
            description="time after which a worker repeats its announcement: a simulated network "
            "has no connections whose end is noticed"
        ),
    ] = 60.0


class Fleet(Struct, frozen=True, kw_only=True):
    """The complete description of a simulation.

    Parameters
    ----------
    job : Job
        Section [job], with the terms of the server.
    plan : Plan
        Sections [source], [features] and [learner].
    devices : tuple of Devices
        Groups of devices, one per [[devices]].
    data : Partition
        Section [data]: how examples are divided among workers.
    arrival : Arrival
        Section [arrival]: when examples reach a worker.
    availability : Availability
        Section [availability]: when workers are awake.
    faults : Faults
        Section [faults].
    selection : dict
        Settings of the selector.
    fingerprint : str
        SHA-256 of the document.
    """

    job: Job
    plan: Plan
    devices: tuple[Devices, ...]
    data: Partition
    arrival: Arrival
    availability: Availability
    faults: Faults
    selection: dict[str, Any]
    fingerprint: str

    @property
    def workers(self) -> int:
        """Number of workers."""
        return sum(group.count for group in self.devices)

    def with_scheme(self, scheme: str) -> Fleet:
        """Return the same fleet with another scheme.

        Parameters
        ----------
        scheme : str
            Name of a scheme, such as "deal".

        Returns
        -------
        Fleet
            A copy.
        """
        return replace(self, job=replace(self.job, scheme=scheme))

    @property
    def learner(self) -> str:
        """Name of the learner."""
        return self.plan.learner


SECTIONS = (
    "job", "source", "features", "learner", "devices", "data", "arrival", "availability", "faults",
    "rewards", "selection",
)  # fmt: skip


def read_fleet(document: Document, data: Data | None = None) -> Fleet:
    """Return the fleet that a document describes.

    Parameters
    ----------
    document : Document
        A parsed TOML file.
    data : Data or None
        Examples in memory that replace [source]; None reads the source.

    Returns
    -------
    Fleet
        The fleet.

    Raises
    ------
    BadInput
        If a key is invalid; the message names line, key and remedy.
    """
    for name in document.tables:
        if name not in SECTIONS:
            raise document.error(name, f"no section [{name}]; {nearest(name, SECTIONS)}")
    devices = _devices(document)
    availability = read_variant(document, AVAILABILITIES, "availability")
    workers = sum(group.count for group in devices)
    faults = read_section(document, Faults, "faults")
    job = read_job(document)
    if "presence_timeout_s" not in document.tables.get("job", {}):
        timeout_s = _MISSED * faults.announce_every_s
        job = replace(job, terms=replace(job.terms, presence_timeout_s=timeout_s))
    text = json.dumps(document.tables, sort_keys=True, default=str)
    fleet = Fleet(
        job=job,
        plan=read_plan(document, job, data),
        devices=devices,
        data=read_variant(document, PARTITIONS, "data"),
        arrival=read_variant(document, ARRIVALS, "arrival"),
        availability=availability.load(document.folder, workers),
        faults=faults,
        selection=read_selection(document, job),
        fingerprint=hashlib.sha256(text.encode()).hexdigest(),
    )
    _require_agreement(document, fleet)
    return fleet


def _devices(document: Document) -> tuple[Devices, ...]:
    """Return all groups of devices, each with the profile of its phone."""
    groups = read_tables(document, Devices, "devices")
    total = sum(group.count for group in groups)
    if total > _MAX_WORKERS:
        raise document.error(
            "devices.1.count", f"{total} workers are too many; the maximum is {_MAX_WORKERS}"
        )
    return tuple(_with_profile(document, place, group) for place, group in enumerate(groups))


def _with_profile(document: Document, place: int, group: Devices) -> Devices:
    if not group.phone:
        return group
    name, given = f"devices.{place + 1}", document.tables["devices"][place]
    for key in _EXPLICIT:
        if key in given:
            raise document.error(
                f"{name}.{key}",
                f"{name}.{key} is part of the phone's profile; remove it or {name}.phone",
            )
    profile = _profile(document, f"{name}.phone", group.phone)
    battery = profile.battery
    return replace(
        group,
        device=group.device if "device" in given else profile.name,
        capacity_j=battery.capacity_c * battery.voltage_v,
        profile=profile,
    )


def _profile(document: Document, key: str, name: str) -> Phone:
    if name in PHONES:
        return PHONES[name]
    if Path(name).suffix != ".toml":
        known = ", ".join(f'"{phone}"' for phone in PHONES)
        raise document.error(
            key, f"{key} is {name!r}; it must be one of {known}, or the path of a phone's TOML file"
        )
    try:
        return load_phone(document.folder / name)
    except BadInput as error:
        raise document.error(key, f"{key}: {error}") from None


def _require_agreement(document: Document, fleet: Fleet) -> None:
    """Refuse values that are valid alone but not together."""
    subject = fleet.plan.subject
    if fleet.data.wants_labels and subject.task is not Task.CLASSIFICATION:
        raise document.error(
            "data.partition",
            f"data.partition is by label, but {subject.name} has no labels; choose another",
        )
    faults = fleet.faults
    if faults.min_delay_s > faults.max_delay_s:
        raise document.error(
            "faults.min_delay_s",
            f"faults.min_delay_s is {faults.min_delay_s:g}; it must be ≤ "
            f"faults.max_delay_s, which is {faults.max_delay_s:g}",
        )
