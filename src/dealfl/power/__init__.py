"""Energy models of phones, their clocks and governors, meters, training times and calibration.

>>> from dealfl.power import efficient_frontier, phone
>>> efficient_frontier(phone("honor"))[0].frequency_hz
1402000000
"""

from typing import TYPE_CHECKING

from dealfl.loading import load_when_used

if TYPE_CHECKING:
    from dealfl.power.calibration import (
        FULL,
        QUICK,
        TARGET_ERROR,
        Calibration,
        Fit,
        calibrate,
        clock_hz,
    )
    from dealfl.power.cpufreq import Signalled, machine_clock
    from dealfl.power.energy import Energy, EnergyModel
    from dealfl.power.frequency import FrequencyControl, charge_per_cycle_c, efficient_frontier
    from dealfl.power.governors import GOVERNORS, governor
    from dealfl.power.meters import (
        METERS,
        Kind,
        MachineState,
        MeasuredCommand,
        Meter,
        Reading,
        Source,
        make_meter,
        measure_command,
        read_machine,
    )
    from dealfl.power.profiles import (
        PHONES,
        RADIOS,
        SPEED_BAND,
        BaseLoad,
        OperatingPoint,
        Phone,
        Profile,
        load_phone,
        phone,
    )
    from dealfl.power.radio import OwnTraffic, Radio, Traffic
    from dealfl.power.spending import (
        CLOCKS,
        PhoneClock,
        PhoneSpending,
        Spent,
        Training,
        phone_clock,
    )
    from dealfl.power.training_time import REFERENCE_HZ, TimeEstimate, TrainingTime
else:
    __getattr__ = load_when_used(
        __name__,
        {
            "calibration": (
                "FULL",
                "QUICK",
                "TARGET_ERROR",
                "Calibration",
                "Fit",
                "calibrate",
                "clock_hz",
            ),
            "cpufreq": (
                "Signalled",
                "machine_clock",
            ),
            "energy": (
                "Energy",
                "EnergyModel",
            ),
            "frequency": (
                "FrequencyControl",
                "charge_per_cycle_c",
                "efficient_frontier",
            ),
            "governors": (
                "GOVERNORS",
                "governor",
            ),
            "meters": (
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
            ),
            "profiles": (
                "PHONES",
                "RADIOS",
                "SPEED_BAND",
                "BaseLoad",
                "OperatingPoint",
                "Phone",
                "Profile",
                "load_phone",
                "phone",
            ),
            "radio": (
                "OwnTraffic",
                "Radio",
                "Traffic",
            ),
            "spending": (
                "CLOCKS",
                "PhoneClock",
                "PhoneSpending",
                "Spent",
                "Training",
                "phone_clock",
            ),
            "training_time": (
                "REFERENCE_HZ",
                "TimeEstimate",
                "TrainingTime",
            ),
        },
    )


__all__ = [
    "CLOCKS",
    "FULL",
    "GOVERNORS",
    "METERS",
    "PHONES",
    "QUICK",
    "RADIOS",
    "REFERENCE_HZ",
    "SPEED_BAND",
    "TARGET_ERROR",
    "BaseLoad",
    "Calibration",
    "Energy",
    "EnergyModel",
    "Fit",
    "FrequencyControl",
    "Kind",
    "MachineState",
    "MeasuredCommand",
    "Meter",
    "OperatingPoint",
    "OwnTraffic",
    "Phone",
    "PhoneClock",
    "PhoneSpending",
    "Profile",
    "Radio",
    "Reading",
    "Signalled",
    "Source",
    "Spent",
    "TimeEstimate",
    "Traffic",
    "Training",
    "TrainingTime",
    "calibrate",
    "charge_per_cycle_c",
    "clock_hz",
    "efficient_frontier",
    "governor",
    "load_phone",
    "machine_clock",
    "make_meter",
    "measure_command",
    "phone",
    "phone_clock",
    "read_machine",
]
