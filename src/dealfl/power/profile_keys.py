"""The keys of a phone's TOML file."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from msgspec import Meta, Struct

from dealfl.errors import BadInput
from dealfl.power.hardware import Quality
from dealfl.settings import Text

__all__ = ["ClusterKeys", "Profile", "Stated", "StatedValue"]

Milliamperes = Annotated[float, Meta(ge=0, le=10_000)]
PageSeconds = Annotated[float, Meta(ge=0, le=1)]


class Stated(Struct, frozen=True):
    """The evidence for a value: `{ value = …, quality = …, source = … }`."""

    quality: Annotated[Quality, Meta(description="quality of the evidence")]
    source: Annotated[Text, Meta(description="key of [sources]")]


class StatedValue(Stated, frozen=True):
    """A number with its evidence, in place of a plain number."""

    value: Annotated[float, Meta(description="the number")]


class BatteryKeys(Struct, frozen=True):
    """The battery."""

    capacity_mah: Annotated[float, Meta(ge=1, le=1e6, description="charge when full, in mAh")]
    voltage_v: Annotated[float, Meta(ge=0.5, le=100, description="nominal voltage")]


class AwakeKeys(Struct, frozen=True):
    """The phone while awake and otherwise idle."""

    current_ma: Annotated[Milliamperes, Meta(description="battery current in mA")]


class WifiKeys(Struct, frozen=True):
    """The wifi radio."""

    active_ma: Annotated[Milliamperes, Meta(description="current while sending or receiving")]
    tail_s: Annotated[
        float, Meta(ge=0, le=60, description="time for which the radio stays active afterwards")
    ]
    rate_mbit_s: Annotated[
        float, Meta(ge=0.01, le=100_000, description="transfer rate in Mbit/s")
    ] = 20.0


class ScreenKeys(Struct, frozen=True):
    """The screen."""

    on_ma: Annotated[Milliamperes, Meta(description="current while the screen is on")]


class StorageKeys(Struct, frozen=True):
    """The flash storage."""

    active_ma: Annotated[Milliamperes, Meta(description="current while reading or writing")]
    page_read_s: Annotated[PageSeconds, Meta(description="time to read a page")]
    page_write_s: Annotated[PageSeconds, Meta(description="time to write a page")]


class PointKeys(Struct, frozen=True):
    """An operating point of a cluster."""

    frequency_khz: Annotated[
        int, Meta(ge=1_000, le=20_000_000, description="clock frequency in kHz")
    ]
    core_ma: Annotated[
        float, Meta(ge=0.001, le=10_000, description="current of the first busy core")
    ]
    shared_ma: Annotated[
        Milliamperes, Meta(description="current of the cluster, for any number of busy cores")
    ] = 0.0


class ClusterKeys(Struct, frozen=True, kw_only=True):
    """Cores that share one clock."""

    name: Annotated[Text, Meta(description="name of the cluster")]
    cores: Annotated[int, Meta(ge=1, le=1024, description="number of cores")]
    core_factors: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=4)], ...],
        Meta(description="current of each busy core, relative to the first; by default equal"),
    ] = ()
    frequencies: Annotated[Stated | None, Meta(description="evidence for the frequencies")] = None
    currents: Annotated[Stated | None, Meta(description="evidence for the currents")] = None
    points: Annotated[tuple[PointKeys, ...], Meta(description="operating points, slowest first")]

    def __post_init__(self) -> None:
        """Reject factors that do not match the cores, and points out of order."""
        if self.core_factors and len(self.core_factors) != self.cores:
            given = list(self.core_factors)
            raise BadInput(f"core_factors is {given}; it must be a list of {self.cores} numbers")
        for slower, faster in pairwise(self.points):
            if slower.frequency_khz >= faster.frequency_khz:
                khz = faster.frequency_khz
                raise BadInput(f"points has {khz} kHz out of order; list the slowest first")


class Profile(Struct, frozen=True, kw_only=True):
    """The keys of a phone's file; a number can be a table of `value`, `quality` and `source`.

    Parameters
    ----------
    name : str
        Name of the phone.
    model : str
        Model, as sold.
    processor, android : str, default "not stated"
        Processor, and version of Android.
    cycle_factor : float
        Cycles for each cycle of the calibration machine.
    sources : dict of str to str
        Sources of values, by the names used in the file.
    battery : BatteryKeys
        Capacity in mAh, voltage in volts.
    awake : AwakeKeys
        Current in mA.
    wifi : WifiKeys
        Current in mA, tail in seconds, rate in Mbit/s.
    screen : ScreenKeys
        Current in mA.
    storage : StorageKeys
        Current in mA, seconds per page.
    clusters : tuple of ClusterKeys
        Clusters of cores, with frequencies in kHz and currents in mA.
    """

    name: Annotated[Text, Meta(description="name of the phone")]
    model: Annotated[Text, Meta(description="model, as sold")]
    processor: Annotated[Text, Meta(description="processor")] = "not stated"
    android: Annotated[Text, Meta(description="version of Android")] = "not stated"
    cycle_factor: Annotated[
        float,
        Meta(ge=0.01, le=1000, description="cycles for each cycle of the calibration machine"),
    ]
    sources: Annotated[
        dict[str, Text], Meta(description="sources of values, by the names used below")
    ] = {}
    battery: Annotated[BatteryKeys, Meta(description="the section [battery]")]
    awake: Annotated[AwakeKeys, Meta(description="the section [awake]")]
    wifi: Annotated[WifiKeys, Meta(description="the section [wifi]")]
    screen: Annotated[ScreenKeys, Meta(description="the section [screen]")]
    storage: Annotated[StorageKeys, Meta(description="the section [storage]")]
    clusters: Annotated[
        tuple[ClusterKeys, ...], Meta(description="the sections [[clusters]], at least one")
    ]
