"""Energy meters with one protocol: hardware, recordings, or a model."""

from dealfl.power.meters.base import Kind, Meter, ModelledMeter, Reading, RecordedMeter, Source
from dealfl.power.meters.battery_gauge import BatteryMeter
from dealfl.power.meters.command import MeasuredCommand, measure_command
from dealfl.power.meters.machine import MeterChoice, best_meter
from dealfl.power.meters.monsoon import MonsoonMeter
from dealfl.power.meters.rapl import RaplMeter

__all__ = [
    "BatteryMeter",
    "Kind",
    "MeasuredCommand",
    "Meter",
    "MeterChoice",
    "ModelledMeter",
    "MonsoonMeter",
    "RaplMeter",
    "Reading",
    "RecordedMeter",
    "Source",
    "best_meter",
    "measure_command",
]
