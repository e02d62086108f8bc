"""Phones and the currents they draw, in SI units; read from TOML files, and the keys of those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from msgspec import Meta, Struct

from dealfl.errors import BadInput, OutOfBounds, unknown_name
from dealfl.registry import Registry
from dealfl.settings import Document, Text, read_value

SPEED_BAND = 3.0  # the true cycle factor is within this factor of the declared one
_PAPER = ("honor", "lenovo", "zte", "mi", "nexus")  # in the order of the paper's table
_FOLDER = Path(__file__).parent / "phones"
_LARGEST_BYTES = 1 << 20  # a phone is one page of text; a larger file is a mistake
_STATED = {"value", "quality", "source"}

_MILLI = 1e-3
_KILO = 1000
_COULOMBS_PER_MAH = 3.6
_BYTES_PER_MEGABIT = 125_000.0
_WIFI_RTT_S = 0.05  # declared: to a server in the same country
RADIOS = ("wifi", "lte")

Milliamperes = Annotated[float, Meta(ge=0, le=10_000)]
PageSeconds = Annotated[float, Meta(ge=0, le=1)]


class Quality(StrEnum):
    """The quality of the evidence for a value of a profile."""

    EXACT = "exact"  # read for this device
    DERIVED = "derived"  # computed from values of this device
    SIBLING = "sibling"  # read for a closely related device
    TYPICAL = "typical"  # order of magnitude for such devices
    DECLARED = "declared"  # an assumption
    UNSTATED = "unstated"


class BaseLoad(StrEnum):
    """The parts of a device that draw current beside the CPU while a worker computes."""

    AWAKE = "awake"
    WIFI = "awake, wifi active"
    SCREEN = "awake, screen on"
    BOTH = "awake, wifi active, screen on"

    @property
    def wifi(self) -> bool:
        """Whether wifi is active."""
        return self in (BaseLoad.WIFI, BaseLoad.BOTH)

    @property
    def screen(self) -> bool:
        """Whether the screen is on."""
        return self in (BaseLoad.SCREEN, BaseLoad.BOTH)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The source of a value."""

    quality: Quality
    source: str


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A clock frequency of a cluster, and its battery currents."""

    cluster: int
    frequency_hz: int
    core_a: float
    shared_a: float = 0.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cores that share one clock."""

    name: str
    points: tuple[OperatingPoint, ...]
    core_factors: tuple[float, ...]

    @property
    def cores(self) -> int:
        """The number of cores."""
        return len(self.core_factors)

    def current_a(self, point: OperatingPoint, busy_cores: int = 1) -> float:
        """Return the battery current of busy cores at an operating point."""
        if not 1 <= busy_cores <= self.cores:
            limit = f"cluster {self.name!r} takes 1 to {self.cores}"
            raise OutOfBounds(f"busy_cores is {busy_cores}; {limit}")
        factors = tuple(accumulate(self.core_factors))
        return point.core_a * factors[busy_cores - 1] + point.shared_a


@dataclass(frozen=True, slots=True)
class Battery:
    """A battery: capacity in coulombs (ampere seconds) and nominal voltage in volts."""

    capacity_c: float
    voltage_v: float


@dataclass(frozen=True, slots=True)
class Link:
    """The radio of a phone: what it draws, how fast it is, and how long it stays on."""

    name: str
    on_a: float  # while it is on
    tail_s: float  # how long it stays on after a transfer
    up_bytes_per_s: float
    down_bytes_per_s: float
    rtt_s: float  # round-trip time to the server
    active_w: float = 0.0  # beside `on_a` while bytes travel
    promotion_j: float = 0.0  # to switch it on
    up_j_per_byte: float = 0.0
    down_j_per_byte: float = 0.0


def _make_lte(voltage_v: float) -> Link:
    """Return LTE as Huang et al. measured it (MobiSys 2012).

    1.06 W in the tail; 1.29 W and joules per megabit while bytes travel.
    """
    return Link(
        name="lte",
        on_a=1.06 / voltage_v,
        tail_s=11.576,
        up_bytes_per_s=5.64 * _BYTES_PER_MEGABIT,
        down_bytes_per_s=12.74 * _BYTES_PER_MEGABIT,
        rtt_s=0.07,
        active_w=0.23,
        promotion_j=0.31,
        up_j_per_byte=0.44 / _BYTES_PER_MEGABIT,
        down_j_per_byte=0.05 / _BYTES_PER_MEGABIT,
    )


@dataclass(frozen=True, slots=True)
class Storage:
    """Storage: current while a page is read or written, and the time for each."""

    active_a: float
    page_read_s: float
    page_write_s: float


@dataclass(frozen=True, slots=True)
class Phone:
    """The profile of a phone."""

    name: str
    model: str
    processor: str
    android: str
    cycle_factor: float
    clusters: tuple[Cluster, ...]
    battery: Battery
    awake_a: float
    link: Link  # wifi, or what `over` sets
    screen_a: float
    storage: Storage
    evidence: Mapping[str, Evidence]

    @property
    def cores(self) -> int:
        """The number of cores in all clusters."""
        return sum(cluster.cores for cluster in self.clusters)

    @property
    def points(self) -> tuple[OperatingPoint, ...]:
        """The operating points of all clusters, slowest first."""
        points = (point for cluster in self.clusters for point in cluster.points)
        return tuple(sorted(points, key=lambda point: (point.frequency_hz, -point.cluster)))

    @property
    def fastest(self) -> OperatingPoint:
        """The fastest operating point; with the least current if clusters share the frequency."""
        top = self.points[-1].frequency_hz
        return min((p for p in self.points if p.frequency_hz == top), key=self.current_a)

    def current_a(self, point: OperatingPoint, busy_cores: int = 1) -> float:
        """Return the battery current of busy cores at an operating point.

        Parameters
        ----------
        point
            Frequency and current of a core.
        busy_cores
            Number of busy cores.

        Returns
        -------
        float
            Amperes.
        """
        return self.clusters[point.cluster].current_a(point, busy_cores)

    def base_a(self, base: BaseLoad) -> float:
        """Return the battery current of all parts except the CPU.

        Parameters
        ----------
        base
            The parts that are on.

        Returns
        -------
        float
            Amperes.

        Examples
        --------
        >>> from dealfl.power import phone
        >>> round(phone("honor").base_a(BaseLoad.WIFI), 3)
        0.171
        """
        radio = self.link.on_a if base.wifi else 0.0
        screen = self.screen_a if base.screen else 0.0
        return self.awake_a + radio + screen

    def over(
        self, radio: str = "wifi", rtt_s: float | None = None, tail_s: float | None = None
    ) -> Phone:
        """Return the phone with another radio, and with another round-trip time or tail.

        Parameters
        ----------
        radio
            "lte", or "wifi" for the radio that the phone has.
        rtt_s, tail_s
            Seconds; those of the radio by default.

        Returns
        -------
        Phone
            The phone.

        Examples
        --------
        >>> from dealfl.power import phone
        >>> phone("honor").over("lte", tail_s=3.0).link.tail_s
        3.0
        """
        if radio not in RADIOS:
            raise unknown_name("radio", radio, RADIOS)
        link = _make_lte(self.battery.voltage_v) if radio == "lte" else self.link
        link = link if rtt_s is None else replace(link, rtt_s=rtt_s)
        return replace(self, link=link if tail_s is None else replace(link, tail_s=tail_s))


_UNSTATED = Evidence(Quality.UNSTATED, "not stated")


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
    """Read a phone from a TOML file; `phones/honor.toml` is an example."""
    document = Document.read(path, _LARGEST_BYTES)
    stated: dict[str, Stated | None] = {}
    plain = _plain(document, document.tables, "", stated)
    profile: Profile = read_value(replace(document, tables=plain), Profile, "", plain)
    for index, cluster in enumerate(profile.clusters):
        stated[f"clusters[{index}].frequencies"] = cluster.frequencies
        stated[f"clusters[{index}].currents"] = cluster.currents
    evidence = {key: _evidence(document, profile, key, value) for key, value in stated.items()}
    return _phone(profile, evidence)


def _plain(
    document: Document, table: Mapping[str, Any], prefix: str, stated: dict[str, Stated | None]
) -> dict[str, Any]:
    """Return a table with plain numbers; collect the evidence of each in `stated`."""
    plain: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}.{key}" if prefix else key
        plain[key] = value
        if isinstance(value, Mapping) and name != "sources":
            if _STATED & set(value):
                stated[name] = read_value(document, StatedValue, name, value)
                plain[key] = value["value"]
            else:
                plain[key] = _plain(document, value, name, stated)
        elif not isinstance(value, str | list | Mapping):
            stated[name] = None
    return plain


def _evidence(document: Document, profile: Profile, key: str, stated: Stated | None) -> Evidence:
    if stated is None:
        return _UNSTATED
    if stated.source not in profile.sources:
        sources = ", ".join(profile.sources) or "none is listed"
        problem = f"{key}.source is {stated.source!r}; it must be a key of [sources]: {sources}"
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
        clusters=tuple(_cluster(index, keys) for index, keys in enumerate(profile.clusters)),
        battery=Battery(battery.capacity_mah * _COULOMBS_PER_MAH, battery.voltage_v),
        awake_a=profile.awake.current_ma * _MILLI,
        link=Link(
            name="wifi",
            on_a=wifi.active_ma * _MILLI,
            tail_s=wifi.tail_s,
            up_bytes_per_s=wifi.rate_mbit_s * _BYTES_PER_MEGABIT,
            down_bytes_per_s=wifi.rate_mbit_s * _BYTES_PER_MEGABIT,
            rtt_s=_WIFI_RTT_S,
        ),
        screen_a=profile.screen.on_ma * _MILLI,
        storage=Storage(storage.active_ma * _MILLI, storage.page_read_s, storage.page_write_s),
        evidence=MappingProxyType(dict(evidence)),
    )


def _cluster(index: int, cluster: ClusterKeys) -> Cluster:
    points = (
        OperatingPoint(
            index, keys.frequency_khz * _KILO, keys.core_ma * _MILLI, keys.shared_ma * _MILLI
        )
        for keys in cluster.points
    )
    return Cluster(cluster.name, tuple(points), cluster.core_factors or (1.0,) * cluster.cores)


def _admit(name: str, plugin: Any) -> Phone:  # noqa: ANN401
    """Return the phone of a plug-in: a Phone, or the path of a TOML file."""
    admitted = load_phone(plugin) if isinstance(plugin, str | Path) else plugin
    if not isinstance(admitted, Phone):
        raise BadInput(f"{plugin!r} is neither a dealfl.power.Phone nor the path of a TOML file")
    if admitted.name != name:
        raise BadInput(f"the phone's name is {admitted.name!r}; it must be {name!r}")
    return admitted


def _load_phones() -> dict[str, Phone]:
    return {name: load_phone(_FOLDER / f"{name}.toml") for name in _PAPER}


PHONES: Registry[Phone] = Registry("dealfl.phones", _load_phones, _admit)


def phone(name: str) -> Phone:
    """Return a phone by name.

    Examples
    --------
    >>> phone("nexus").fastest.frequency_hz
    2649600000
    """
    if name not in PHONES:
        raise unknown_name("phone", name, PHONES)
    return PHONES[name]
