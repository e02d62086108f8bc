"""Energy models of phones, their clocks and governors, training times and their calibration.

>>> from dealfl.power import efficient_frontier, phone
>>> efficient_frontier(phone("honor"))[0].frequency_hz
1402000000
"""

from dealfl.power.calibration import (
    FULL,
    QUICK,
    TARGET_ERROR,
    Calibration,
    Fit,
    calibrate,
    clock_hz,
)
from dealfl.power.energy import Energy, EnergyModel
from dealfl.power.frequency import FrequencyControl
from dealfl.power.frontier import charge_per_cycle_c, efficient_frontier
from dealfl.power.governors import GOVERNORS, governor
from dealfl.power.hardware import SPEED_BAND, BaseLoad, OperatingPoint, Phone
from dealfl.power.machine_control import Signalled, machine_clock
from dealfl.power.phone_clocks import CLOCKS, Phase, PhoneClock, phone_clock, replay
from dealfl.power.profiles import PHONES, Profile, load_phone, phone
from dealfl.power.radio import Radio, Traffic
from dealfl.power.spending import PhoneSpending, Spent, Training
from dealfl.power.training_time import REFERENCE_HZ, TimeEstimate, TrainingTime

__all__ = [
    "CLOCKS", "FULL", "GOVERNORS", "PHONES", "QUICK", "REFERENCE_HZ", "SPEED_BAND",
    "TARGET_ERROR", "BaseLoad", "Calibration", "Energy", "EnergyModel", "Fit", "FrequencyControl",
    "OperatingPoint", "Phase", "Phone", "PhoneClock", "PhoneSpending", "Profile", "Radio",
    "Signalled", "Spent", "TimeEstimate", "Traffic", "Training", "TrainingTime", "calibrate",
    "charge_per_cycle_c", "clock_hz", "efficient_frontier", "governor", "load_phone",
    "machine_clock", "phone", "phone_clock", "replay",
]  # fmt: skip
