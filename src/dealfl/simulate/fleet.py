"""A fleet: the job, the devices, the data and the faults, read from a TOML file."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from dealfl.data import Task
from dealfl.jobs import (
    Data,
    Document,
    Job,
    Plan,
    PrivacyKeys,
    read_job,
    read_plan,
    read_privacy,
    read_selection,
)
from dealfl.settings import (
    Amount,
    Positive,
    Share,
    nearest,
    read_section,
    read_variant,
)
from dealfl.simulate.devices import Devices, read_devices
from dealfl.simulate.schedules import ARRIVALS, AVAILABILITIES, Arrival, Availability
from dealfl.simulate.split import PARTITIONS, Change, Partition
from dealfl.simulate.traffic import RadioKeys
from dealfl.worker import WorkerKeys, find_scheme

_STEPS = (0.6, 1, 1.7, 3, 5, 8)  # of its number of waiting examples
_MISSED = 3  # announcements, before a worker counts as asleep


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
    min_delay_s: Annotated[Amount, Meta(description="shortest delay of a message")] = 0.0
    max_delay_s: Annotated[Amount, Meta(description="longest delay of a message")] = 0.0
    announce_every_s: Annotated[
        Positive,
        Meta(
            description="time after which a worker repeats its announcement: a simulated network "
            "has no connections whose end is noticed"
        ),
    ] = 60.0


class FleetSpec(Struct, frozen=True, kw_only=True):
    """The complete description of a simulation."""

    job: Job
    plan: Plan
    devices: tuple[Devices, ...]
    worker: WorkerKeys
    data: Partition
    arrival: Arrival
    availability: Availability
    faults: Faults
    radio: RadioKeys
    change: Change
    privacy: PrivacyKeys
    selection: dict[str, Any]
    fingerprint: str

    @property
    def workers(self) -> int:
        """Number of workers."""
        return sum(group.count for group in self.devices)

    def as_system(self, scheme: str) -> FleetSpec:
        """Return the same fleet as another system: its scheme, and what belongs to it.

        Traditional federated learning (`original`, `newfl`) wakes everyone who is awake,
        `incremental` a uniform choice. They may do everything cheap that this fleet does: their
        phones sleep, wait for as many examples, and fetch the model as rarely. They do not ride
        along, weigh the price of a call, test for drift, keep a live model or set their clock.
        `incremental@12` is `incremental` with another number of waiting examples.
        """
        scheme, _, waiting = scheme.partition("@")
        if scheme == self.job.scheme and not waiting:
            return self
        selector = find_scheme(scheme).selector
        selection = {} if selector == "everyone" else {"seed": self.job.seed}
        rules = replace(
            self.job.rules,
            min_waiting=int(waiting or self.job.rules.min_waiting),
            wait_j=0.0,
            ride_along=False,
            release_batch=1,
        )
        job = replace(self.job, scheme=scheme, selector=selector, rules=rules)
        if waiting:
            job = replace(job, evaluate_every=job.rules.rounds)
        groups = tuple(_with_system_clock(group) for group in self.devices)
        return replace(self, job=job, selection=selection, devices=groups, worker=WorkerKeys())

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Numbers of waiting examples with which a baseline is compared at equal delay."""
        least = self.job.rules.min_examples_per_update  # with fewer, nobody is called
        own = max(self.job.rules.min_waiting, least)
        return tuple(dict.fromkeys(max(round(own * step), least) for step in _STEPS))

    @property
    def learner(self) -> str:
        """Name of the learner."""
        return self.plan.learner


def _with_system_clock(group: Devices) -> Devices:
    own = group.profile is not None and group.governor == "deal"
    return replace(group, governor="interactive") if own else group


SECTIONS = (
    "job",
    "source",
    "features",
    "learner",
    "worker",
    "devices",
    "data",
    "arrival",
    "availability",
    "faults",
    "radio",
    "change",
    "machine",
    "privacy",
    "rewards",
    "selection",
)


def read_fleet(document: Document, data: Data | None = None) -> FleetSpec:
    """Return the fleet that a document describes."""
    for name in document.tables:
        if name not in SECTIONS:
            raise document.error(name, f"no section [{name}]; {nearest(name, SECTIONS)}")
    faults = read_section(document, Faults, "faults")
    job = read_job(document)
    if "presence_timeout_s" not in document.tables.get("job", {}):
        timeout_s = _MISSED * faults.announce_every_s
        job = replace(job, rules=replace(job.rules, presence_timeout_s=timeout_s))
    selection = read_selection(document, job)
    worker = read_section(document, WorkerKeys, "worker")
    data_keys = read_variant(document, PARTITIONS, "data")
    arrival = read_variant(document, ARRIVALS, "arrival")
    availability = read_variant(document, AVAILABILITIES, "availability")
    radio = read_section(document, RadioKeys, "radio")
    change = read_section(document, Change, "change")
    privacy = read_privacy(document)
    plan = read_plan(document, job, data)
    devices = read_devices(
        document, radio.rtt_s, radio.tail_s
    )  # last: a misspelt key is named before a missing section
    workers = sum(group.count for group in devices)
    text = json.dumps(document.tables, sort_keys=True, default=str)
    fleet = FleetSpec(
        job=job,
        plan=plan,
        devices=devices,
        worker=worker,
        data=data_keys,
        arrival=arrival,
        availability=availability.load(document.folder, workers),
        faults=faults,
        radio=radio,
        change=change,
        privacy=privacy,
        selection=selection,
        fingerprint=hashlib.sha256(text.encode()).hexdigest(),
    )
    _require_agreement(document, fleet)
    return fleet


def _require_agreement(document: Document, fleet: FleetSpec) -> None:
    """Refuse values that are valid alone but not together."""
    subject = fleet.plan.subject
    if fleet.data.wants_labels and subject.task is not Task.CLASSIFICATION:
        raise document.error(
            "data.partition",
            f"data.partition is by label, but {subject.name} has no labels; choose another",
        )
    if fleet.change.at_h and subject.task is not Task.CLASSIFICATION:
        raise document.error(
            "change.at_h",
            f"change.at_h is {fleet.change.at_h:g}, but {subject.name} has no classes that could "
            "change; remove the section [change]",
        )
    if fleet.privacy.keyholder and fleet.privacy.cohort > fleet.workers:
        raise document.error(
            "privacy.cohort",
            f"privacy.cohort is {fleet.privacy.cohort}; the fleet has {fleet.workers} workers, so "
            "that nothing would ever be opened",
        )
    faults = fleet.faults
    if faults.min_delay_s > faults.max_delay_s:
        raise document.error(
            "faults.min_delay_s",
            f"faults.min_delay_s is {faults.min_delay_s:g}; it must be ≤ "
            f"faults.max_delay_s, which is {faults.max_delay_s:g}",
        )
