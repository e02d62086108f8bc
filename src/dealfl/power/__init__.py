"""Energy models of phones, their clocks and governors, and control of the clock.

>>> from dealfl.power import EnergyModel, critical_point, phone
>>> honor = phone("honor")
>>> critical_point(honor).frequency_hz
1402000000
"""

from dealfl.power.clocks import Clock, CpufreqClock, NoClock, SimulatedClock, cpufreq_clock
from dealfl.power.efficiency import (
    charge_per_cycle_c,
    critical_point,
    efficient_frontier,
    saving,
)
from dealfl.power.energy import Energy, EnergyModel
from dealfl.power.frequency import END, FORGET, LEARN, FrequencyControl, Setting
from dealfl.power.governors import GOVERNORS, Governor, governor
from dealfl.power.hardware import (
    SPEED_BAND,
    BaseLoad,
    Cluster,
    Evidence,
    OperatingPoint,
    Phone,
    Quality,
)
from dealfl.power.profile_keys import Profile
from dealfl.power.profiles import PHONES, load_phone, phone
from dealfl.power.replay import Phase, at_point, under_control, under_governor
from dealfl.power.spending import PhoneSpending, Spent, Training
from dealfl.power.time_estimate import TimeEstimate
from dealfl.power.training_time import REFERENCE_HZ, TrainingTime

__all__ = [
    "END",
    "FORGET",
    "GOVERNORS",
    "LEARN",
    "PHONES",
    "REFERENCE_HZ",
    "SPEED_BAND",
    "BaseLoad",
    "Clock",
    "Cluster",
    "CpufreqClock",
    "Energy",
    "EnergyModel",
    "Evidence",
    "FrequencyControl",
    "Governor",
    "NoClock",
    "OperatingPoint",
    "Phase",
    "Phone",
    "PhoneSpending",
    "Profile",
    "Quality",
    "Setting",
    "SimulatedClock",
    "Spent",
    "TimeEstimate",
    "Training",
    "TrainingTime",
    "at_point",
    "charge_per_cycle_c",
    "cpufreq_clock",
    "critical_point",
    "efficient_frontier",
    "governor",
    "load_phone",
    "phone",
    "saving",
    "under_control",
    "under_governor",
]
