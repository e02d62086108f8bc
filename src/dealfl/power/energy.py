"""Energy that work draws from a phone's battery: e = Σ P_cpu(f)·U·t + Σ e_j, split by cause."""

import math
import operator
from dataclasses import dataclass, field, fields

from dealfl.errors import OutOfBounds
from dealfl.power.hardware import BaseLoad, OperatingPoint, Phone

__all__ = ["Energy", "EnergyModel"]

_COULOMBS_PER_UAH = 3.6e-3


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy by cause. The causes add up to the total; energies can be added.

    Parameters
    ----------
    cpu_j : float, default 0
        Busy cores, in joules.
    awake_j : float, default 0
        The device being awake, in joules.
    wifi_active_j : float, default 0
        Wifi while sending or receiving, in joules.
    wifi_tail_j : float, default 0
        Wifi staying on after a transfer, in joules.
    screen_j : float, default 0
        The screen, in joules.
    storage_j : float, default 0
        Reading and writing pages, in joules.
    charge_uah : float, default 0
        Battery charge of all causes, in µAh.
    elapsed_s : float, default 0
        Duration, in seconds.

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


_SUMMED = tuple(one.name for one in fields(Energy) if one.init)
_CAUSES = tuple(name.removesuffix("_j") for name in _SUMMED if name.endswith("_j"))
_summed = operator.attrgetter(*_SUMMED)
_joules = operator.attrgetter(*(f"{name}_j" for name in _CAUSES))


@dataclass(frozen=True, slots=True)
class EnergyModel:
    """The energy model of one phone.

    Parameters
    ----------
    phone : Phone
        Profile of the phone.

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

        Parameters
        ----------
        operations : float
            Number of operations.
        cycles_per_operation : float
            Cycles per operation on the calibration machine. The phone's declared
            `cycle_factor` converts them.

        Returns
        -------
        float
            Cycles on the phone.

        Raises
        ------
        OutOfBounds
            If a value is negative.
        """
        _require_non_negative(operations=operations, cycles_per_operation=cycles_per_operation)
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
        """Return the energy of computing, and of the pages swapped meanwhile.

        Parameters
        ----------
        cycles : float
            Cycles of work, over all busy cores.
        point : OperatingPoint
            Frequency and current of the cores.
        base : BaseLoad, default AWAKE
            Other parts of the device that draw current.
        utilisation : float, default 1
            Fraction of the time for which a core is busy. The work takes 1/utilisation times as
            long, and the device stays awake for it.
        busy_cores : int, default 1
            Number of cores that share the work.
        pages_in, pages_out : int, default 0
            Pages read from and written to storage; the cores wait for them.

        Returns
        -------
        Energy
            Energy, charge and duration.

        Raises
        ------
        OutOfBounds
            If a count is negative or `utilisation` is not in (0, 1].
        """
        _require_non_negative(cycles=cycles, pages_in=pages_in, pages_out=pages_out)
        if not 0.0 < utilisation <= 1.0:
            raise OutOfBounds(f"utilisation is {utilisation}; it must be > 0 and ≤ 1")
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
        """Return the energy of being awake and idle.

        Parameters
        ----------
        elapsed_s : float
            Duration, in seconds.
        base : BaseLoad, default AWAKE
            Parts of the device that draw current.

        Returns
        -------
        Energy
            Energy, charge and duration.
        """
        _require_non_negative(elapsed_s=elapsed_s)
        return self._drawn(elapsed_s, **self._base_c(elapsed_s, base))

    def transfer(
        self, active_s: float, base: BaseLoad = BaseLoad.AWAKE, *, next_s: float = math.inf
    ) -> Energy:
        """Return the energy of a wifi transfer: the device awake for it, then the radio's tail.

        Parameters
        ----------
        active_s : float
            Duration of the transfer, in seconds.
        base : BaseLoad, default AWAKE
            Parts of the device that draw current during the transfer.
        next_s : float, default inf
            Seconds until the next transfer starts; it cuts the tail short.

        Returns
        -------
        Energy
            Energy and charge. The duration excludes the tail.
        """
        _require_non_negative(active_s=active_s, next_s=next_s)
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


def _require_non_negative(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0.0:
            raise OutOfBounds(f"{name} is {value}; it must be ≥ 0")
