"""Meters of energy: measured by hardware, read from a recording, or modelled; one protocol."""

from dealfl.power.meters.base import Kind, Meter, ModelledMeter, Reading, RecordedMeter, Source
from dealfl.power.meters.command import MeasuredCommand, measure_command
from dealfl.power.meters.machine import BatteryMeter, MeterChoice, RaplMeter, best_meter
from dealfl.power.meters.monsoon import MonsoonMeter

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
