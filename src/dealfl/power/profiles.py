"""Phones from TOML files, the five of the paper and those of users; and the keys of such a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from msgspec import Meta, Struct

from dealfl.errors import BadInput, unknown_name
from dealfl.plugins import Registry
from dealfl.power.hardware import (
    Battery,
    Cluster,
    Evidence,
    OperatingPoint,
    Phone,
    Quality,
    Storage,
    Wifi,
)
from dealfl.settings import Document, Text, read_value

__all__ = ["PHONES", "Profile", "load_phone", "phone"]

_PAPER = ("honor", "lenovo", "zte", "mi", "nexus")  # in the order of the paper's table
_FOLDER = Path(__file__).parent / "phones"
_LARGEST_BYTES = 1 << 20  # a phone is one page of text; a larger file is a mistake
_UNSTATED = Evidence(Quality.UNSTATED, "not stated")
_STATED = {"value", "quality", "source"}

_MILLI, _KILO = 1e-3, 1000
_COULOMBS_PER_MAH = 3.6
_BYTES_PER_MEGABIT = 125_000.0

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
    """The keys of a phone's file; a number can be a table of `value`, `quality` and `source`."""

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


def load_phone(path: Path | str) -> Phone:
    """Read a phone from a TOML file; `phones/honor.toml` is an example.

    Parameters
    ----------
    path : Path or str
        TOML file with the keys of `Profile`.

    Returns
    -------
    Phone
        The phone, in SI units.

    Raises
    ------
    BadInput
        If the file cannot be read or a key is missing, unknown or out of range.
    """
    document = Document.read(path, _LARGEST_BYTES)
    stated: dict[str, Stated | None] = {}
    plain = _plain(document, document.tables, "", stated)
    profile: Profile = read_value(replace(document, tables=plain), Profile, "", plain)
    for place, cluster in enumerate(profile.clusters):
        stated[f"clusters[{place}].frequencies"] = cluster.frequencies
        stated[f"clusters[{place}].currents"] = cluster.currents
    evidence = {key: _evidence(document, profile, key, one) for key, one in stated.items()}
    return _phone(profile, evidence)


def _plain(
    document: Document, table: Mapping[str, Any], place: str, stated: dict[str, Stated | None]
) -> dict[str, Any]:
    """Return a table with plain numbers; collect the evidence of each in `stated`."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{place}.{key}" if place else key
        found[key] = value
        if isinstance(value, Mapping) and name != "sources":
            if _STATED & set(value):
                stated[name] = read_value(document, StatedValue, name, value)
                found[key] = value["value"]
            else:
                found[key] = _plain(document, value, name, stated)
        elif not isinstance(value, str | list | Mapping):
            stated[name] = None
    return found


def _evidence(document: Document, profile: Profile, key: str, stated: Stated | None) -> Evidence:
    if stated is None:
        return _UNSTATED
    if stated.source not in profile.sources:
        known = ", ".join(profile.sources) or "none is listed"
        problem = f"{key}.source is {stated.source!r}; it must be a key of [sources]: {known}"
        raise document.error(f"{key}.source", problem)
    return Evidence(stated.quality, profile.sources[stated.source])


def _phone(profile: Profile, evidence: Mapping[str, Evidence]) -> Phone:
    """Return the phone of a profile, in SI units."""
    battery, wifi, storage = profile.battery, profile.wifi, profile.storage
    return Phone(
        name=profile.name,
        model=profile.model,
        processor=profile.processor,
        android=profile.android,
        cycle_factor=profile.cycle_factor,
        clusters=tuple(_cluster(index, one) for index, one in enumerate(profile.clusters)),
        battery=Battery(battery.capacity_mah * _COULOMBS_PER_MAH, battery.voltage_v),
        awake_a=profile.awake.current_ma * _MILLI,
        wifi=Wifi(wifi.active_ma * _MILLI, wifi.tail_s, wifi.rate_mbit_s * _BYTES_PER_MEGABIT),
        screen_a=profile.screen.on_ma * _MILLI,
        storage=Storage(storage.active_ma * _MILLI, storage.page_read_s, storage.page_write_s),
        evidence=MappingProxyType(dict(evidence)),
    )


def _cluster(index: int, cluster: ClusterKeys) -> Cluster:
    points = (
        OperatingPoint(
            index, one.frequency_khz * _KILO, one.core_ma * _MILLI, one.shared_ma * _MILLI
        )
        for one in cluster.points
    )
    return Cluster(cluster.name, tuple(points), cluster.core_factors or (1.0,) * cluster.cores)


def _admit(name: str, found: Any) -> Phone:  # noqa: ANN401
    """Return the phone of a plug-in: a Phone, or the path of a TOML file."""
    made = load_phone(found) if isinstance(found, str | Path) else found
    if not isinstance(made, Phone):
        raise BadInput(f"{found!r} is neither a dealfl.power.Phone nor the path of a TOML file")
    if made.name != name:
        raise BadInput(f"the phone's name is {made.name!r}; it must be {name!r}")
    return made


PHONES: Registry[Phone] = Registry(
    "dealfl.phones", {name: load_phone(_FOLDER / f"{name}.toml") for name in _PAPER}, _admit
)


def phone(name: str) -> Phone:
    """Return a phone by name.

    Parameters
    ----------
    name : str
        A key of `PHONES`, such as "honor".

    Returns
    -------
    Phone
        The phone.

    Raises
    ------
    UnknownName
        If there is no phone of that name.

    Examples
    --------
    >>> phone("nexus").fastest.frequency_hz
    2649600000
    """
    if name not in PHONES:
        raise unknown_name("phone", name, PHONES)
    return PHONES[name]
