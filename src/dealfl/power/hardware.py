"""Hardware of a phone and the currents it draws, in SI units."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from dealfl.errors import OutOfBounds

__all__ = [
    "SPEED_BAND", "BaseLoad", "Battery", "Cluster", "Evidence", "OperatingPoint", "Phone",
    "Quality", "Storage", "Wifi",
]  # fmt: skip

SPEED_BAND = 3.0  # the true cycle factor is within this factor of the declared one


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

    @property
    def with_wifi(self) -> "BaseLoad":
        """The same load with wifi active."""
        return BaseLoad.BOTH if self.screen else BaseLoad.WIFI


@dataclass(frozen=True, slots=True)
class Evidence:
    """The source of a value."""

    quality: Quality
    source: str


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A clock frequency of a cluster, and its battery currents.

    Parameters
    ----------
    cluster : int
        Index of the cluster in `Phone.clusters`.
    frequency_hz : int
        Clock frequency, in hertz.
    core_a : float
        Battery current of one busy core, in amperes.
    shared_a : float, default 0
        Battery current of the cluster, independent of the number of busy cores, in amperes.
    """

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
class Wifi:
    """Wifi: current while sending or receiving, duration of the tail, transfer rate."""

    active_a: float
    tail_s: float
    bytes_per_s: float = 2.5e6


@dataclass(frozen=True, slots=True)
class Storage:
    """Storage: current while a page is read or written, and the time for each."""

    active_a: float
    page_read_s: float
    page_write_s: float


@dataclass(frozen=True, slots=True)
class Phone:
    """The profile of a phone.

    Parameters
    ----------
    name, model, processor, android : str
        Short name, model as sold, processor, version of Android.
    cycle_factor : float
        Cycles on this phone for each cycle of the calibration machine (declared).
    clusters : tuple of Cluster
        Clusters of cores.
    battery : Battery
        Capacity in coulombs, voltage in volts.
    awake_a : float
        Battery current while awake and idle, in amperes.
    wifi : Wifi
        Current in amperes, tail in seconds, rate in bytes per second.
    screen_a : float
        Battery current of the screen, in amperes.
    storage : Storage
        Current in amperes, seconds per page.
    evidence : mapping of str to Evidence
        Source and quality of each value, by the key of the profile.
    """

    name: str
    model: str
    processor: str
    android: str
    cycle_factor: float
    clusters: tuple[Cluster, ...]
    battery: Battery
    awake_a: float
    wifi: Wifi
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
        point : OperatingPoint
            Operating point of one of the clusters.
        busy_cores : int, default 1
            Number of fully busy cores.

        Returns
        -------
        float
            Battery current, in amperes.
        """
        return self.clusters[point.cluster].current_a(point, busy_cores)

    def base_a(self, base: BaseLoad) -> float:
        """Return the battery current of all parts except the CPU.

        Parameters
        ----------
        base : BaseLoad
            Parts of the device that draw current.

        Returns
        -------
        float
            Battery current, in amperes.

        Examples
        --------
        >>> from dealfl.power import phone
        >>> round(phone("honor").base_a(BaseLoad.WIFI), 3)
        0.171
        """
        wifi = self.wifi.active_a if base.wifi else 0.0
        screen = self.screen_a if base.screen else 0.0
        return self.awake_a + wifi + screen
