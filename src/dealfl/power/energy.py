"""What work costs a phone's battery: the paper's e = Σ P_cpu(f)·U·t + Σ e_j, split by cause."""

import math
from dataclasses import dataclass, field, fields

from dealfl.errors import OutOfBounds
from dealfl.power.hardware import BaseLoad, OperatingPoint, Phone

__all__ = ["Energy", "EnergyModel"]

_COULOMBS_PER_UAH = 3.6e-3


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy by cause; the causes add up to the total, and energies to energies.

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
        return math.fsum(self.by_cause_j.values())

    def __add__(self, other: "Energy") -> "Energy":
        return Energy(**{name: getattr(self, name) + getattr(other, name) for name in _SUMMED})


_SUMMED = tuple(one.name for one in fields(Energy) if one.init)
_CAUSES = tuple(name.removesuffix("_j") for name in _SUMMED if name.endswith("_j"))


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
        """Return the phone's cycles for work counted in operations.

        `cycles_per_operation` was measured on another machine; the phone's one declared factor
        carries it over.
        """
        _not_negative(operations=operations, cycles_per_operation=cycles_per_operation)
        return operations * cycles_per_operation * self.phone.cycle_factor

    def compute(
        self,
        cycles: float,
        point: OperatingPoint,
        base: BaseLoad = BaseLoad.AWAKE,
        *,
        utilisation: float = 1.0,
        busy_cores: int = 1,
        pages_in: int = 0,
        pages_out: int = 0,
    ) -> Energy:
        """Return what cycles of work cost, and the pages swapped meanwhile.

        A core that is busy for a fraction `utilisation` of the time takes longer by as much, and
        the rest of the device stays awake for it; while a page is swapped, the cores wait.
        """
        _not_negative(cycles=cycles, pages_in=pages_in, pages_out=pages_out)
        if not 0.0 < utilisation <= 1.0:
            raise OutOfBounds(f"utilisation is {utilisation}; it must be above 0 and at most 1")
        storage = self.phone.storage
        busy_s = cycles / (busy_cores * point.frequency_hz)
        storage_s = pages_in * storage.page_read_s + pages_out * storage.page_write_s
        elapsed_s = busy_s / utilisation + storage_s
        return self._drawn(
            elapsed_s,
            cpu=self.phone.current_a(point, busy_cores) * busy_s,
            storage=storage.active_a * storage_s,
            **self._base_c(elapsed_s, base),
        )

    def wait(self, elapsed_s: float, base: BaseLoad = BaseLoad.AWAKE) -> Energy:
        """Return what it costs to be awake and do nothing."""
        _not_negative(elapsed_s=elapsed_s)
        return self._drawn(elapsed_s, **self._base_c(elapsed_s, base))

    def transfer(
        self, active_s: float, base: BaseLoad = BaseLoad.AWAKE, *, next_s: float = math.inf
    ) -> Energy:
        """Return what a burst of wifi costs: the device awake for it, then the radio's tail.

        The tail is as long as the profile says, or shorter if the next burst begins after `next_s`.
        """
        _not_negative(active_s=active_s, next_s=next_s)
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


def _not_negative(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0.0:
            raise OutOfBounds(f"{name} is {value}; it must be 0 or more")
