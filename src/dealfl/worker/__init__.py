"""The worker on a device: it stores records, learns, forgets, and sends the changes."""

from dealfl.worker.device import (
    MIN_BATTERY,
    Cost,
    Device,
    MeasuredMeter,
    Meter,
    PhoneMeter,
)
from dealfl.worker.journal import Journal, Record, State
from dealfl.worker.models import Memory, ResidentModel, WorkerKeys
from dealfl.worker.schemes import (
    COMPARED,
    SCHEMES,
    Eviction,
    KeepAll,
    Newest,
    Retention,
    Scheme,
    Theta,
    exact_fraction,
    find_scheme,
)
from dealfl.worker.trainer import Accepted
from dealfl.worker.worker import Hibernated, Identity, Worker

__all__ = [
    "COMPARED",
    "MIN_BATTERY",
    "SCHEMES",
    "Accepted",
    "Cost",
    "Device",
    "Eviction",
    "Hibernated",
    "Identity",
    "Journal",
    "KeepAll",
    "MeasuredMeter",
    "Memory",
    "Meter",
    "Newest",
    "PhoneMeter",
    "Record",
    "ResidentModel",
    "Retention",
    "Scheme",
    "State",
    "Theta",
    "Worker",
    "WorkerKeys",
    "exact_fraction",
    "find_scheme",
]
