"""A fleet's server and workers, made from its description."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from dealfl.server import Ledger, Server
from dealfl.server.selection import selector
from dealfl.simulate.config import Fleet
from dealfl.simulate.devices import Devices
from dealfl.simulate.equipment import Equipment, equip
from dealfl.simulate.simulation import Network
from dealfl.simulate.split import Split
from dealfl.worker import Journal, Worker

__all__ = ["Parts", "build", "drawer", "network_of"]

_KEY = b"key of a simulated job"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a fleet consists of; everything of a worker is found by its name."""

    server: Server
    workers: dict[str, Worker]
    journals: dict[str, Journal]
    equipment: dict[str, Equipment]
    devices: dict[str, Devices]


def drawer(fleet: Fleet) -> Callable[[str], random.Random]:
    """Return what gives each purpose its own draws, the same for the same seed."""
    return lambda purpose: random.Random(f"{fleet.job.seed}/{purpose}")  # noqa: S311


def build(fleet: Fleet, split: Split, ledger: Ledger) -> Parts:
    """Return server and workers, with empty journals."""
    devices = _named(fleet)
    seed, draw = fleet.job.seed, drawer(fleet)
    journals = {name: Journal(journal_id=f"{seed}/{name}") for name in devices}
    equipment = {name: equip(fleet, group, name, draw) for name, group in devices.items()}
    workers = {
        name: _worker(fleet, split, name, journals[name], equipment[name], devices[name])
        for name in devices
    }
    server = Server(
        fleet.job.name,
        split.make,
        ledger,
        fleet.job.terms,
        selector(fleet.job.selector, fleet.selection),
    )
    return Parts(server, workers, journals, equipment, devices)


def _named(fleet: Fleet) -> dict[str, Devices]:
    groups = [group for group in fleet.devices for _ in range(group.count)]
    width = len(str(len(groups)))
    return {f"w{place:0{width}}": group for place, group in enumerate(groups, 1)}


def _worker(
    fleet: Fleet,
    split: Split,
    name: str,
    journal: Journal,
    equipment: Equipment,
    group: Devices,
) -> Worker:
    job = fleet.job
    return Worker(
        job.name,
        name,
        split.make,
        journal,
        equipment.meter,
        key=_KEY,
        scheme_name=job.scheme,
        forget_fraction=job.forget_fraction,
        announce_every_s=job.announce_every_s,
        send_again_after_s=job.send_again_after_s,
        device=equipment.device,
        least_battery=group.least_battery,
    )


def network_of(fleet: Fleet) -> Network:
    """Return the network between server and workers."""
    faults = fleet.faults
    return Network(
        loss=faults.loss,
        repetition=faults.repetition,
        shortest_s=faults.shortest_delay_s,
        longest_s=faults.longest_delay_s,
        seed=fleet.job.seed,
    )
