"""What runs on a device: it keeps examples, learns, forgets, and sends what changed."""

from dealfl.worker.journal import Journal, Record, State
from dealfl.worker.material import Histories, Material, Rows
from dealfl.worker.trainer import Cost, Meter
from dealfl.worker.training import SCHEMES, Scheme
from dealfl.worker.worker import Accepted, Device, Worker

__all__ = [
    "SCHEMES",
    "Accepted",
    "Cost",
    "Device",
    "Histories",
    "Journal",
    "Material",
    "Meter",
    "Record",
    "Rows",
    "Scheme",
    "State",
    "Worker",
]
