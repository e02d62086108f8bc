"""Construction of a fleet's server and workers from its description."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from dealfl.server import Ledger, Server
from dealfl.server.selection import make_selector
from dealfl.simulate.fleet import Devices, Fleet
from dealfl.simulate.simulated_device import SimulatedDevice, make_device
from dealfl.simulate.simulation import Network
from dealfl.simulate.split import Split
from dealfl.worker import Journal, Worker

__all__ = ["Parts", "build", "make_drawer", "make_network"]

_KEY = b"key of a simulated job"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a fleet; those of a worker are found by its name."""

    server: Server
    workers: dict[str, Worker]
    journals: dict[str, Journal]
    devices: dict[str, SimulatedDevice]
    kinds: dict[str, str]


def make_drawer(fleet: Fleet) -> Callable[[str], random.Random]:
    """Return a function from a purpose to its own seeded random generator."""
    return lambda purpose: random.Random(f"{fleet.job.seed}/{purpose}")  # noqa: S311


def build(fleet: Fleet, split: Split, ledger: Ledger) -> Parts:
    """Return the server and the workers, with empty journals."""
    groups, draw = _name_workers(fleet), make_drawer(fleet)
    journals = {name: Journal(journal_id=f"{fleet.job.seed}/{name}") for name in groups}
    devices = {name: make_device(fleet, group, name, draw) for name, group in groups.items()}
    workers = {
        name: _make_worker(fleet, split, name, journals[name], devices[name], group.min_battery)
        for name, group in groups.items()
    }
    server = Server(
        fleet.job.name,
        split.make,
        ledger,
        fleet.job.terms,
        make_selector(fleet.job.selector, fleet.selection),
    )
    kinds = {name: group.device for name, group in groups.items()}
    return Parts(server, workers, journals, devices, kinds)


def _name_workers(fleet: Fleet) -> dict[str, Devices]:
    groups = [group for group in fleet.devices for _ in range(group.count)]
    width = len(str(len(groups)))
    return {f"w{place:0{width}}": group for place, group in enumerate(groups, 1)}


def _make_worker(
    fleet: Fleet,
    split: Split,
    name: str,
    journal: Journal,
    device: SimulatedDevice,
    min_battery: float,
) -> Worker:
    job = fleet.job
    return Worker(
        job.name,
        name,
        split.make,
        journal,
        device,
        key=_KEY,
        scheme_name=job.scheme,
        forget_fraction=job.forget_fraction,
        announce_every_s=job.announce_every_s,
        retry_after_s=job.retry_after_s,
        device=device,
        min_battery=min_battery,
    )


def make_network(fleet: Fleet) -> Network:
    """Return the network between server and workers."""
    faults = fleet.faults
    return Network(
        loss=faults.loss,
        repetition=faults.repetition,
        min_delay_s=faults.min_delay_s,
        max_delay_s=faults.max_delay_s,
        seed=fleet.job.seed,
    )
