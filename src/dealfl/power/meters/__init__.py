"""Energy meters with one protocol: hardware, recordings, or a model."""

from dealfl.power.meters.base import Kind, Meter, Reading, Source
from dealfl.power.meters.command import MeasuredCommand, measure_command

__all__ = ["Kind", "MeasuredCommand", "Meter", "Reading", "Source", "measure_command"]
