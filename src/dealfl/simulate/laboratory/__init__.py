"""A laboratory for selection: policies against the optimum, in worlds that are known."""

from dealfl.simulate.laboratory.experiment import Course, Result, bound, run_laboratory
from dealfl.simulate.laboratory.optimum import Optimum, optima
from dealfl.simulate.laboratory.setting import (
    Laboratory,
    Policy,
    laboratory_of,
    preset_names,
    read_laboratory,
)

__all__ = [
    "Course",
    "Laboratory",
    "Optimum",
    "Policy",
    "Result",
    "bound",
    "laboratory_of",
    "optima",
    "preset_names",
    "read_laboratory",
    "run_laboratory",
]
