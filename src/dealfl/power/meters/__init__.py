"""Energy meters with one protocol: hardware, recordings, or a model."""

from dealfl.power.meters.base import Kind, Meter, Reading, Source
from dealfl.power.meters.machine import (
    METERS,
    MachineState,
    MeasuredCommand,
    make_meter,
    measure_command,
    read_machine,
)

__all__ = [
    "METERS",
    "Kind",
    "MachineState",
    "MeasuredCommand",
    "Meter",
    "Reading",
    "Source",
    "make_meter",
    "measure_command",
    "read_machine",
]
