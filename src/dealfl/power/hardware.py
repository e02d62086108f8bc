"""What a phone draws from its battery: records in SI units, as the energy model reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from dealfl.errors import OutOfBounds

__all__ = [
    "SPEED_BAND", "BaseLoad", "Battery", "Cluster", "Evidence", "OperatingPoint", "Phone",
    "Quality", "Storage", "Wifi",
]  # fmt: skip

SPEED_BAND = 3.0  # the declared cycle factor may be wrong by this factor either way


class Quality(StrEnum):
    """How well a value of a profile is known."""

    EXACT = "exact"  # read for this very device
    DERIVED = "derived"  # computed from values of this device
    SIBLING = "sibling"  # read for a near relative
    TYPICAL = "typical"  # an order of magnitude for its kind
    DECLARED = "declared"  # a choice
    UNSTATED = "unstated"


class BaseLoad(StrEnum):
    """What draws current beside the CPU while a worker computes."""

    AWAKE = "awake"
    WIFI = "awake, wifi active"
    SCREEN = "awake, screen on"
    BOTH = "awake, wifi active, screen on"

    @property
    def wifi(self) -> bool:
        """Whether the wifi is active."""
        return self in (BaseLoad.WIFI, BaseLoad.BOTH)

    @property
    def screen(self) -> bool:
        """Whether the screen is on."""
        return self in (BaseLoad.SCREEN, BaseLoad.BOTH)

    @property
    def with_wifi(self) -> "BaseLoad":
        """The same, with the wifi active."""
        return BaseLoad.BOTH if self.screen else BaseLoad.WIFI


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a value comes from."""

    quality: Quality
    source: str


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A clock frequency of a cluster, and the battery current that one busy core draws at it.

    `shared_a` is drawn once for the cluster, however many of its cores are busy.
    """

    cluster: int
    frequency_hz: int
    core_a: float
    shared_a: float = 0.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cores that share one clock. Core i, when busy, draws `core_factors[i]` of the first's."""

    name: str
    points: tuple[OperatingPoint, ...]
    core_factors: tuple[float, ...]

    @property
    def cores(self) -> int:
        """How many cores there are."""
        return len(self.core_factors)

    def current_a(self, point: OperatingPoint, busy_cores: int = 1) -> float:
        """Return the battery current of so many fully busy cores."""
        if not 1 <= busy_cores <= self.cores:
            raise OutOfBounds(f"{busy_cores} busy cores; {self.name} has from 1 to {self.cores}")
        factors = tuple(accumulate(self.core_factors))
        return point.core_a * factors[busy_cores - 1] + point.shared_a


@dataclass(frozen=True, slots=True)
class Battery:
    """A battery: charge in ampere seconds (coulombs), nominal voltage."""

    capacity_c: float
    voltage_v: float


@dataclass(frozen=True, slots=True)
class Wifi:
    """Current while sending or receiving, how long it lasts after that, and the speed."""

    active_a: float
    tail_s: float
    bytes_per_s: float = 2.5e6


@dataclass(frozen=True, slots=True)
class Storage:
    """Current while a page is read or written, and how long each takes."""

    active_a: float
    page_read_s: float
    page_write_s: float


@dataclass(frozen=True, slots=True)
class Phone:
    """A phone's profile.

    `cycle_factor` is its one declared speed factor: cycles it needs for each cycle of the machine
    on which cycles per operation were measured. `evidence` says for each key of the profile how
    well it is known, and from where.
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
        """How many cores all clusters have together."""
        return sum(cluster.cores for cluster in self.clusters)

    @property
    def points(self) -> tuple[OperatingPoint, ...]:
        """The operating points of all clusters, slowest first."""
        points = (point for cluster in self.clusters for point in cluster.points)
        return tuple(sorted(points, key=lambda point: (point.frequency_hz, -point.cluster)))

    @property
    def fastest(self) -> OperatingPoint:
        """The fastest operating point; the cheapest of them if clusters share that frequency."""
        top = self.points[-1].frequency_hz
        return min((p for p in self.points if p.frequency_hz == top), key=self.current_a)

    def current_a(self, point: OperatingPoint, busy_cores: int = 1) -> float:
        """Return the battery current of so many busy cores at an operating point."""
        return self.clusters[point.cluster].current_a(point, busy_cores)

    def base_a(self, base: BaseLoad) -> float:
        """Return the battery current of all but the CPU.

        >>> from dealfl.power import phone
        >>> round(phone("honor").base_a(BaseLoad.WIFI), 3)
        0.171
        """
        wifi = self.wifi.active_a if base.wifi else 0.0
        screen = self.screen_a if base.screen else 0.0
        return self.awake_a + wifi + screen
