"""Energy that work and radio draw from a battery: e = Σ P_cpu(f)·U·t + Σ e_j, split by cause."""

import math
import operator
from dataclasses import dataclass, field, fields

from dealfl.power.profiles import BaseLoad, OperatingPoint, Phone

_COULOMBS_PER_UAH = 3.6e-3
_TRAINING = "training"
_KEEP_ALIVE_BYTES = 128  # a ping and its answer, with the headers of TCP and TLS
_NEVER_S = -math.inf


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy by cause. The causes add up to the total; energies can be added.

    Examples
    --------
    >>> both = Energy(cpu_j=2.0, charge_uah=150.0) + Energy(wifi_tail_j=0.5, charge_uah=40.0)
    >>> both.total_j, both.charge_uah, both.source
    (2.5, 190.0, 'modelled')
    """

    cpu_j: float = 0.0
    awake_j: float = 0.0
    wifi_active_j: float = 0.0
    wifi_tail_j: float = 0.0
    screen_j: float = 0.0
    storage_j: float = 0.0
    charge_uah: float = 0.0
    elapsed_s: float = 0.0
    source: str = field(default="modelled", init=False)

    @property
    def by_cause_j(self) -> dict[str, float]:
        """Joules by cause."""
        return {name: getattr(self, f"{name}_j") for name in _CAUSES}

    @property
    def total_j(self) -> float:
        """The sum over all causes."""
        return math.fsum(_joules(self))

    def __add__(self, other: "Energy") -> "Energy":
        return Energy(*map(operator.add, _summed(self), _summed(other)))

    def __sub__(self, other: "Energy") -> "Energy":
        return Energy(*map(operator.sub, _summed(self), _summed(other)))


_SUMMED = tuple(each.name for each in fields(Energy) if each.init)
_CAUSES = tuple(name.removesuffix("_j") for name in _SUMMED if name.endswith("_j"))
_summed = operator.attrgetter(*_SUMMED)
_joules = operator.attrgetter(*(f"{name}_j" for name in _CAUSES))


@dataclass(frozen=True, slots=True)
class EnergyModel:
    """The energy model of one phone.

    Examples
    --------
    >>> from dealfl.power import EnergyModel, phone
    >>> honor = phone("honor")
    >>> model = EnergyModel(honor)
    >>> cycles = model.cycles(operations=10**6, cycles_per_operation=2.0)
    >>> compute = model.compute(cycles, honor.fastest)
    >>> whole = compute + model.transfer(active_s=0.1)
    >>> round(compute.charge_uah, 3), round(whole.charge_uah, 3)
    (0.112, 13.751)
    """

    phone: Phone

    def cycles(self, operations: float, cycles_per_operation: float) -> float:
        """Return the phone's cycles for work counted in operations."""
        return operations * cycles_per_operation * self.phone.cycle_factor

    def compute(
        self,
        cycles: float,
        point: OperatingPoint,
        base: BaseLoad = BaseLoad.AWAKE,
        *,
        pages_in: int = 0,
        pages_out: int = 0,
    ) -> Energy:
        """Return the energy of computing, and of the pages swapped meanwhile."""
        storage = self.phone.storage
        busy_s = cycles / point.frequency_hz
        storage_s = pages_in * storage.page_read_s + pages_out * storage.page_write_s
        elapsed_s = busy_s + storage_s
        return self._drawn(
            elapsed_s,
            cpu=self.phone.current_a(point) * busy_s,
            storage=storage.active_a * storage_s,
            **self._base_c(elapsed_s, base),
        )

    def wait(self, elapsed_s: float, base: BaseLoad = BaseLoad.AWAKE) -> Energy:
        """Return the energy of being awake and idle."""
        return self._drawn(elapsed_s, **self._base_c(elapsed_s, base))

    def transfer(
        self, active_s: float, base: BaseLoad = BaseLoad.AWAKE, *, next_s: float = math.inf
    ) -> Energy:
        """Return the energy of a wifi transfer: the device awake for it, then the radio's tail.

        A transfer after `next_s` cuts the tail short. The duration excludes the tail.
        """
        wifi = self.phone.wifi
        drawn = self._base_c(active_s, base)
        drawn["wifi_active"] = wifi.active_a * active_s
        tail_s = min(wifi.tail_s, next_s) if active_s else 0.0
        return self._drawn(active_s, wifi_tail=wifi.active_a * tail_s, **drawn)

    def _base_c(self, elapsed_s: float, base: BaseLoad) -> dict[str, float]:
        phone = self.phone
        return {
            "awake": phone.awake_a * elapsed_s,
            "wifi_active": phone.wifi.active_a * elapsed_s if base.wifi else 0.0,
            "screen": phone.screen_a * elapsed_s if base.screen else 0.0,
        }

    def _drawn(self, elapsed_s: float, **charge_c: float) -> Energy:
        joules = {f"{name}_j": c * self.phone.battery.voltage_v for name, c in charge_c.items()}
        charge_uah = math.fsum(charge_c.values()) / _COULOMBS_PER_UAH
        return Energy(**joules, charge_uah=charge_uah, elapsed_s=elapsed_s)


@dataclass(slots=True)
class Traffic:
    """The traffic of a phone so far: its time, its bytes, and its bursts by cause."""

    active_s: float = 0.0
    tail_s: float = 0.0
    up_bytes: int = 0
    down_bytes: int = 0
    bursts: dict[str, int] = field(default_factory=dict)
    quiet_at_s: float = _NEVER_S  # end of the last tail
    last_s: float = _NEVER_S  # end of the last transfer over an open connection
    cause: str = ""  # of the last burst

    @property
    def own_bursts(self) -> int:
        """Number of bursts without a training."""
        return sum(self.bursts.values()) - self.bursts.get(_TRAINING, 0)


class Radio:
    """Counts what a phone sends and receives, and models its energy.

    After a transfer the radio stays on for the phone's `tail_s`. A transfer within this tail
    continues the burst and cuts the tail short; any other transfer begins a burst. A burst in which
    a worker trains has the cause "training". An idle connection is kept alive after `keep_alive_s`,
    unless that is 0: another application's connection is shared.

    Examples
    --------
    >>> from dealfl.power import phone
    >>> radio = Radio(phone("honor"))
    >>> radio.transfer(0.0, "announcement", sent=500)
    >>> radio.transfer(0.1, "training", received=500)
    >>> radio.transfer(900.0, "receipt", received=500)
    >>> radio.traffic.bursts
    {'training': 1, 'receipt': 1}
    """

    def __init__(
        self, phone: Phone, *, keep_alive_s: float = 0.0, handshake_bytes: int = 0
    ) -> None:
        self._model = EnergyModel(phone)
        self._wifi = phone.wifi
        self._keep_alive_s = keep_alive_s
        self._handshake_bytes = handshake_bytes
        self.traffic = Traffic()

    @property
    def energy(self) -> Energy:
        """Energy of all traffic so far."""
        tail_c = self._wifi.active_a * self.traffic.tail_s
        voltage_v = self._model.phone.battery.voltage_v
        tail = Energy(wifi_tail_j=tail_c * voltage_v, charge_uah=tail_c / _COULOMBS_PER_UAH)
        return self._model.transfer(self.traffic.active_s, next_s=0.0) + tail

    def connect(self, now_s: float) -> None:
        """Open a connection, unless one is open."""
        if self.traffic.last_s == _NEVER_S:
            self.traffic.last_s = now_s
            if self._handshake_bytes:
                half = self._handshake_bytes // 2
                self.transfer(now_s, "handshake", sent=half, received=half)

    def disconnect(self, now_s: float) -> None:
        """Close the connection."""
        self.keep_alive(now_s)
        self.traffic.last_s = _NEVER_S

    def keep_alive(self, now_s: float) -> None:
        """Add the messages that kept an idle connection alive until now."""
        traffic = self.traffic
        if not self._keep_alive_s or traffic.last_s == _NEVER_S:
            return
        count = int((now_s - traffic.last_s) // self._keep_alive_s)
        if count > 0:
            traffic.active_s += count * _KEEP_ALIVE_BYTES / self._wifi.bytes_per_s
            traffic.tail_s += count * self._wifi.tail_s
            traffic.bursts["keep-alive"] = traffic.bursts.get("keep-alive", 0) + count
            traffic.last_s += count * self._keep_alive_s

    def transfer(self, now_s: float, cause: str, *, sent: int = 0, received: int = 0) -> None:
        """Add a transfer, with the bytes of the protocol."""
        self.keep_alive(now_s)
        traffic = self.traffic
        wifi = self._wifi
        bursts = traffic.bursts
        active_s = (sent + received) / wifi.bytes_per_s
        continues = now_s <= traffic.quiet_at_s
        begins_training = cause == _TRAINING != traffic.cause
        if continues and begins_training:
            bursts[traffic.cause] -= 1
            if not bursts[traffic.cause]:
                del bursts[traffic.cause]
        if not continues or begins_training:
            bursts[cause] = bursts.get(cause, 0) + 1
            traffic.cause = cause
        begin_s = max(now_s, traffic.quiet_at_s - wifi.tail_s)  # transfers do not overlap
        traffic.active_s += active_s
        traffic.tail_s += wifi.tail_s - max(traffic.quiet_at_s - begin_s, 0.0)
        traffic.quiet_at_s = begin_s + active_s + wifi.tail_s
        traffic.up_bytes += sent
        traffic.down_bytes += received
        if traffic.last_s != _NEVER_S:
            traffic.last_s = max(now_s, traffic.last_s)
