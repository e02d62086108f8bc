"""Meters of energy: measured by hardware, read from a recording, or modelled; one protocol."""

from dealfl.power.meters.base import Kind, Meter, Reading, Source
from dealfl.power.meters.battery import BatteryMeter
from dealfl.power.meters.best import MeterChoice, best_meter
from dealfl.power.meters.modelled import ModelledMeter
from dealfl.power.meters.monsoon import MonsoonMeter
from dealfl.power.meters.rapl import RaplMeter
from dealfl.power.meters.recorded import RecordedMeter

__all__ = [
    "BatteryMeter",
    "Kind",
    "Meter",
    "MeterChoice",
    "ModelledMeter",
    "MonsoonMeter",
    "RaplMeter",
    "Reading",
    "RecordedMeter",
    "Source",
    "best_meter",
]
