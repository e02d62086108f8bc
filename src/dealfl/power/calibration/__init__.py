"""How long learners take on a machine: the law of training time, fitted to measured times."""

from dealfl.power.calibration.identification import TimedTraining, identified, relative_errors
from dealfl.power.calibration.timing import (
    ASKED_ERROR,
    FULL,
    QUICK,
    Calibration,
    Effort,
    Fit,
    Point,
    TimedLearner,
    calibrate,
    clock_hz,
    fit_law,
)

__all__ = [
    "ASKED_ERROR", "FULL", "QUICK", "Calibration", "Effort", "Fit", "Point", "TimedLearner",
    "TimedTraining", "calibrate", "clock_hz", "fit_law", "identified", "relative_errors",
]  # fmt: skip
