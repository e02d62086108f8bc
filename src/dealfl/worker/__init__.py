"""The worker on a device: it stores records, learns, forgets, and sends the changes."""

from dealfl.worker.cost import Cost, Done, MeasuredMeter, Meter, PhoneMeter
from dealfl.worker.device import MIN_BATTERY, Device, DeviceNow
from dealfl.worker.holdings import Accepted
from dealfl.worker.journal import Journal
from dealfl.worker.resident import Memory, WorkerKeys
from dealfl.worker.retention import Eviction, KeepAll, Newest, Retention, Theta
from dealfl.worker.schemes import SCHEMES, Scheme, exact_fraction
from dealfl.worker.tables import Record, State
from dealfl.worker.worker import Worker

__all__ = [
    "MIN_BATTERY",
    "SCHEMES",
    "Accepted",
    "Cost",
    "Device",
    "DeviceNow",
    "Done",
    "Eviction",
    "Journal",
    "KeepAll",
    "MeasuredMeter",
    "Memory",
    "Meter",
    "Newest",
    "PhoneMeter",
    "Record",
    "Retention",
    "Scheme",
    "State",
    "Theta",
    "Worker",
    "WorkerKeys",
    "exact_fraction",
]
