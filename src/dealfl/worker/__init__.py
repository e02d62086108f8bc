"""What runs on a device: it keeps examples, learns, forgets, and sends what changed."""

from dealfl.worker.device import Device, DeviceNow
from dealfl.worker.journal import Journal
from dealfl.worker.meters import MeasuredMeter, PhoneMeter
from dealfl.worker.schemes import SCHEMES, Scheme
from dealfl.worker.tables import Record, State
from dealfl.worker.trainer import Cost, Done, Meter
from dealfl.worker.worker import Accepted, Worker

__all__ = [
    "SCHEMES",
    "Accepted",
    "Cost",
    "Device",
    "DeviceNow",
    "Done",
    "Journal",
    "MeasuredMeter",
    "Meter",
    "PhoneMeter",
    "Record",
    "Scheme",
    "State",
    "Worker",
]
