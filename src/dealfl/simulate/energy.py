"""The modelled energy of a fleet: by cause, and the savings by each of three means."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dealfl.power import SPEED_BAND, BaseLoad, EnergyModel, Phone, Spent, Traffic

__all__ = ["FleetEnergy", "Savings", "find_better_clock", "fleet_energy"]

_LESS = 0.999  # a smaller difference is not worth a word


@dataclass(frozen=True, slots=True)
class Savings:
    """The energy saved by each of three means, in this order; the three add up.

    Parameters
    ----------
    fewer_wake_ups_j : float
        Joules saved against waking every worker with waiting examples in each round.
    less_work_j : float
        Joules saved against training on all held examples from scratch each time.
    dvfs_j : float
        Joules saved against the fastest clock for the same work.
    """

    fewer_wake_ups_j: float
    less_work_j: float
    dvfs_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetEnergy:
    """The modelled energy of all devices of a fleet.

    Parameters
    ----------
    by_cause_j : dict of str to float
        Energy by cause, in joules.
    compute_s : float
        Time of computing in seconds.
    compute_j, operating_j, radio_j : float
        Energy of computing, its part that is proportional to the operations, and energy of the
        radio, in joules.
    fastest_compute_j : float
        Energy of the same computing at the fastest clock, in joules.
    review_j : float
        Part of `compute_j` that reviewed evictions, in joules.
    charge_uah : float
        Charge drawn from the batteries, in µAh.
    operations, cycles : int, float
        Number of multiply-adds, and of CPU cycles.
    wake_ups, wake_ups_of_everyone : int
        Number of wake-ups, and the number if every worker with waiting examples were woken.
    pages_in, pages_out : int
        Pages of resident models that were read from and written to storage.
    refactorisations : int
        Times that factors of resident models were computed from scratch again.
    added_latency : float
        Relative increase of computing time by slower clocks.
    savings : Savings
        Energy saved, by means.
    bursts : dict of str to int
        Number of bursts of the radios, by cause.
    up_bytes, down_bytes : int
        Bytes that the phones have sent and received.
    better_clocks : dict of str to tuple of (float, float)
        By kind of phone: a fixed clock in MHz that computes the same work at least as fast, and the
        share of energy that it saves.
    source : str
        Source of the values; always "modelled".
    """

    by_cause_j: dict[str, float]
    compute_s: float
    compute_j: float
    operating_j: float
    radio_j: float
    fastest_compute_j: float
    review_j: float
    charge_uah: float
    operations: int
    cycles: float
    wake_ups: int
    wake_ups_of_everyone: int
    pages_in: int
    pages_out: int
    refactorisations: int
    added_latency: float
    savings: Savings
    bursts: dict[str, int]
    up_bytes: int
    down_bytes: int
    better_clocks: dict[str, tuple[float, float]] = field(default_factory=dict)
    source: str = "modelled"

    @property
    def whole_j(self) -> float:
        """Energy of computing and radio, in joules."""
        return self.compute_j + self.radio_j

    @property
    def own_bursts(self) -> float:
        """Bursts without a training, for each training."""
        trained = self.bursts.get("training", 0)
        return (sum(self.bursts.values()) - trained) / trained if trained else 0.0

    def split_saving(self, other: FleetEnergy) -> dict[str, float]:
        """Return by which levers less energy was spent than by another fleet.

        Parameters
        ----------
        other : FleetEnergy
            Energy of the other fleet.

        Returns
        -------
        dict of str to float
            Joules by lever, two of the radio and two of computing; they add up to the difference.
        """
        work_j = other.fastest_compute_j - self.fastest_compute_j
        downloads_j = other._download_j - self._download_j
        return {
            "fewer bursts": other.radio_j - self.radio_j - downloads_j,
            "smaller downloads": downloads_j,
            "less work": work_j,
            "slower clock": other.compute_j - self.compute_j - work_j,
        }

    @property
    def _download_j(self) -> float:
        carried = self.up_bytes + self.down_bytes
        active_j = self.by_cause_j.get("wifi_active", 0.0)
        return active_j * self.down_bytes / carried if carried else 0.0

    @property
    def band_j(self) -> tuple[float, float]:
        """Energy range in joules if the phones are three times as fast or as slow as declared."""
        fast_j, slow_j = self.compute_j / SPEED_BAND, self.compute_j * SPEED_BAND
        return fast_j + self.radio_j, slow_j + self.radio_j

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = dataclasses.asdict(self)
        saved = plain.pop("savings")
        plain["saved_j"] = {name.removesuffix("_j"): value for name, value in saved.items()}
        return plain | {"whole_j": self.whole_j, "band_j": list(self.band_j)}


def fleet_energy(
    spendings: Iterable[Spent], wake_ups_of_everyone: int, traffic: Sequence[Traffic]
) -> FleetEnergy:
    """Return the energy of a fleet; an avoided wake-up saves the mean radio energy of one."""
    spent = sum(spendings, Spent())
    whole = spent.whole
    spared = max(wake_ups_of_everyone - spent.wake_ups, 0)
    radio_j = spent.radio.total_j
    return FleetEnergy(
        by_cause_j=whole.by_cause_j,
        compute_s=spent.compute.elapsed_s,
        compute_j=spent.compute.total_j,
        operating_j=spent.operating.total_j,
        radio_j=radio_j,
        fastest_compute_j=spent.fastest_compute_j,
        review_j=spent.review_j,
        charge_uah=whole.charge_uah,
        operations=spent.operations,
        cycles=spent.cycles,
        wake_ups=spent.wake_ups,
        wake_ups_of_everyone=wake_ups_of_everyone,
        pages_in=spent.pages_in,
        pages_out=spent.pages_out,
        refactorisations=spent.refactorisations,
        added_latency=spent.added_latency,
        savings=Savings(
            fewer_wake_ups_j=radio_j / spent.wake_ups * spared if spent.wake_ups else 0.0,
            less_work_j=spent.scratch_j - spent.fastest_compute_j,
            dvfs_j=spent.fastest.total_j - whole.total_j,
        ),
        bursts=dict(sum((Counter(one.bursts) for one in traffic), Counter())),
        up_bytes=sum(one.up_bytes for one in traffic),
        down_bytes=sum(one.down_bytes for one in traffic),
    )


def find_better_clock(phone: Phone, base: BaseLoad, spent: Spent) -> tuple[float, float] | None:
    """Return a fixed clock that would have computed the same work as fast with less energy.

    It dominates the clock that the phone had, whatever a radio that waits for the end would draw.
    Returns its frequency in MHz, and the share of energy saved; None if there is no such clock.
    """
    model, own = EnergyModel(phone), spent.compute
    pages = {"pages_in": spent.pages_in, "pages_out": spent.pages_out}
    fixed = {point: model.compute(spent.cycles, point, base, **pages) for point in phone.points}
    better = [
        (energy.total_j, point.frequency_hz / 1e6)
        for point, energy in fixed.items()
        if energy.total_j < _LESS * own.total_j and energy.elapsed_s * _LESS < own.elapsed_s
    ]
    if not better:
        return None
    energy_j, frequency_mhz = min(better)
    return frequency_mhz, 1.0 - energy_j / own.total_j
