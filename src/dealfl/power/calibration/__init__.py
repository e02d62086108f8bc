"""Calibration: the law of training time of learners on a machine, fitted to measured times."""

from dealfl.power.calibration.identification import TimedTraining, identify, relative_errors
from dealfl.power.calibration.laws import TARGET_ERROR, Calibration, Fit, Point
from dealfl.power.calibration.timing import (
    FULL,
    QUICK,
    Effort,
    TimedLearner,
    calibrate,
    clock_hz,
    fit_law,
)

__all__ = [
    "FULL",
    "QUICK",
    "TARGET_ERROR",
    "Calibration",
    "Effort",
    "Fit",
    "Point",
    "TimedLearner",
    "TimedTraining",
    "calibrate",
    "clock_hz",
    "fit_law",
    "identify",
    "relative_errors",
]
