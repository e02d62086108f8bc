"""Energy that work and radio draw from a battery: e = Σ P_cpu(f)·U·t + Σ e_j, split by cause."""

import math
import operator
from dataclasses import dataclass, field, fields

from dealfl.power.profiles import BaseLoad, OperatingPoint, Phone

COULOMBS_PER_UAH = 3.6e-3


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy by cause. The causes add up to the total; energies can be added.

    Examples
    --------
    >>> both = Energy(cpu_j=2.0, charge_uah=150.0) + Energy(radio_tail_j=0.5, charge_uah=40.0)
    >>> both.total_j, both.charge_uah, both.source
    (2.5, 190.0, 'modelled')
    """

    cpu_j: float = 0.0
    awake_j: float = 0.0
    radio_active_j: float = 0.0
    radio_tail_j: float = 0.0
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
    >>> round(compute.charge_uah, 3)
    0.112
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

    def _base_c(self, elapsed_s: float, base: BaseLoad) -> dict[str, float]:
        phone = self.phone
        return {
            "awake": phone.awake_a * elapsed_s,
            "radio_active": phone.link.on_a * elapsed_s if base.wifi else 0.0,
            "screen": phone.screen_a * elapsed_s if base.screen else 0.0,
        }

    def _drawn(self, elapsed_s: float, **charge_c: float) -> Energy:
        joules = {f"{name}_j": c * self.phone.battery.voltage_v for name, c in charge_c.items()}
        charge_uah = math.fsum(charge_c.values()) / COULOMBS_PER_UAH
        return Energy(**joules, charge_uah=charge_uah, elapsed_s=elapsed_s)
