"""Hibernation: what remains of a worker of a simulation while another uses its memory.

An open journal, a learner and the parts of a worker take about 350 KB. What differs between two
workers of a fleet are the rows of the journal, a name, a device and a few flags: some hundred bytes
and the examples. The live model of a resident worker stays in memory: if it were built again, it
would swap other pages, and cost another energy.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from dealfl.masks import Masker
from dealfl.power import Signalled
from dealfl.worker.device import DeviceNow, Meter


class Identity(NamedTuple):
    """What a worker of a fleet has for itself."""

    name: str
    meter: Meter
    device: DeviceNow
    clock: Signalled
    min_battery: float
    secret: bytes  # draws the records held back
    masker: Masker | None = None


class Hibernated(msgspec.Struct, array_like=True):
    """A worker without its memory; the rows hold its state."""

    rows: bytes  # of its journal
    term: int
    must_announce: bool
    reconnected: bool
    rides: bool

    # as the rows say
    is_calling: bool
    waits_for_ride: bool
    is_asleep: bool
    ride_from_s: float
    waiting: int  # examples
    version: int  # of the published model
    next_send_s: float | None
    has_outgoing: bool
