"""The results of a simulation: rounds, participants, and the modelled energy by cause."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dealfl.power import SPEED_BAND, BaseLoad, EnergyModel, Phone, Spent, Traffic
from dealfl.server.selection import OverPromise
from dealfl.simulate.evaluation import Trivial, standard_error
from dealfl.simulate.traffic import Delays

_POINTS = 0.03  # of quality, within which a model is right again
_LESS = 0.999  # a smaller difference is not worth a word


@dataclass(frozen=True, slots=True)
class Savings:
    """The energy saved by each of three means, in this order; the three add up."""

    fewer_wake_ups_j: float  # against waking every worker with waiting examples in each round
    less_work_j: float  # against training on all held examples from scratch each time
    dvfs_j: float  # against the fastest clock for the same work


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetEnergy:
    """The modelled energy of all devices of a fleet."""

    by_cause_j: dict[str, float]
    compute_s: float
    compute_j: float
    operating_j: float  # part of `compute_j` that is proportional to the operations
    radio_j: float
    fastest_compute_j: float  # of the same computing at the fastest clock
    review_j: float  # part of `compute_j` that reviewed evictions
    fastest_review_j: float  # of the same reviews at the fastest clock
    charge_uah: float
    operations: int  # multiply-adds
    cycles: float
    wake_ups: int
    wake_ups_of_everyone: int  # if every worker with waiting examples were woken
    pages_in: int
    pages_out: int
    refactorisations: int  # factors of resident models computed from scratch again
    added_latency: float  # relative increase of computing time by slower clocks
    savings: Savings
    bursts: dict[str, int]  # of the radios, by cause
    rides: int  # bursts that began while own traffic had the radio on
    up_bytes: int
    down_bytes: int
    # by kind of phone: a fixed clock in MHz that is at least as fast, and the share that it saves
    better_clocks: dict[str, tuple[float, float]] = field(default_factory=dict)
    source: str = "modelled"

    def __repr__(self) -> str:
        """Return what people ask for first; `as_dict` has everything."""
        parts = f"{self.compute_j:.3g} J computing, {self.radio_j:.3g} J radio and waking"
        return f"FleetEnergy({self.whole_j:.3g} J, {self.source}: {parts})"

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
        """Return by which levers less energy was spent than by another fleet; they add up.

        The work that both do saves by the difference of their clocks; what one of them does
        beyond that counts at its own clock. Work is compared by its energy at the fastest clock.
        """
        downloads_j = other._download_j - self._download_j
        own_work_j = self.fastest_compute_j - self.fastest_review_j
        other_work_j = other.fastest_compute_j - other.fastest_review_j
        more = other if other_work_j > own_work_j else self
        return {
            "fewer bursts": other.radio_j - self.radio_j - downloads_j,
            "smaller downloads": downloads_j,
            "less work": (other_work_j - own_work_j) * more._clock_factor,
            "slower clock": min(own_work_j, other_work_j)
            * (other._clock_factor - self._clock_factor),
            "fewer reviews": other.review_j - self.review_j,
        }

    @property
    def _clock_factor(self) -> float:
        """Energy of work beside reviews, relative to the same work at the fastest clock."""
        fastest_j = self.fastest_compute_j - self.fastest_review_j
        return (self.compute_j - self.review_j) / fastest_j if fastest_j else 1

    @property
    def _download_j(self) -> float:
        carried = self.up_bytes + self.down_bytes
        active_j = self.by_cause_j.get("radio_active", 0.0)
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
    spendings: Iterable[Spent],
    wake_ups_of_everyone: int,
    traffic: Sequence[Traffic],
    better_clocks: Mapping[str, tuple[float, float]] | None = None,
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
        fastest_review_j=spent.fastest_review_j,
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
        bursts=dict(sum((Counter(counters.bursts) for counters in traffic), Counter())),
        rides=sum(counters.rides for counters in traffic),
        up_bytes=sum(counters.up_bytes for counters in traffic),
        down_bytes=sum(counters.down_bytes for counters in traffic),
        better_clocks=dict(better_clocks or {}),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A closed round. Energies are modelled sums over all devices since the start."""

    number: int
    reason: str  # "majority", "time to live", "declined" or "booked"
    duration_s: float  # virtual time
    closed_at_s: float
    quality: float | None  # None if it was not evaluated
    able: int  # workers that could have been selected
    selected: int
    replied: int
    learned: int  # examples since the last round
    evicted: int
    compute_j: float
    operating_j: float  # proportional to the operations
    radio_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """The total work of one worker, and its modelled cost."""

    name: str
    device: str
    selected: int
    replied: int
    learned: int
    held: int  # examples at the end
    compute_j: float
    operating_j: float
    radio_j: float
    by_cause_j: dict[str, float]
    battery: float  # charge at the end, as a share
    forget_fraction: float = 0.0  # its θ at the end; bad evictions lower it
    radio: str = ""  # wifi or lte; empty if it is not modelled
    delay_s: float | None = None  # of its examples, on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a simulation."""

    rounds: int
    of_rounds: int
    of_h: float  # virtual time that ends the simulation before these rounds; 0 if it does not
    virtual_s: float
    quality: float | None  # None before the first evaluation
    workers: int
    asleep: int
    selected: int  # workers that train now
    learned: int
    evicted: int
    compute_j: float
    operating_j: float
    radio_j: float
    last: Round | None

    @property
    def share(self) -> float:
        """Share of the simulation that is done."""
        by_time = self.virtual_s / (3600.0 * self.of_h) if self.of_h else 0.0
        by_rounds = self.rounds / self.of_rounds if self.of_rounds else 0.0
        return min(max(by_time, by_rounds), 1.0)

    def __str__(self) -> str:
        if self.of_h:
            return f"round {self.rounds}, hour {self.virtual_s / 3600.0:.0f} of {self.of_h:g}"
        return f"round {self.rounds} of {self.of_rounds}"


_DERIVED = (
    "exact",
    "level_of_forgetness",
    "quality_error",
    "battery_per_day",
    "candidates_per_place",
    "jain",
    "least_share",
    "by_majority",
    "by_ttl",
    "operations",
    "energy_j",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The results of a simulation. Energy is modelled from the work; time is virtual."""

    job: str
    scheme: str
    learner: str
    seed: int
    workers: int
    rounds: tuple[Round, ...]
    participants: tuple[Participant, ...]
    ended: str  # reason, such as "all rounds" or "converged"
    metric: str
    quality: float | None
    tested: int  # examples in the test set
    trivial: Trivial
    selector: str
    learned: int
    evicted: int
    quarantined: int  # records that cannot be learned
    first_quarantined: str
    not_learned: int  # examples at the end
    updates: int
    energy: FleetEnergy
    capacity_j: float  # of all batteries; 0 if unknown
    delays: Delays | None  # from the arrival of examples until their updates leave
    unmet_guarantees: OverPromise | None
    prediction_error: float | None  # median relative error of times predicted at selection
    law_error: float | None  # the same, given the numbers of examples learned and evicted
    virtual_s: float  # end of the last round
    digest: str
    central_digest: str  # of central training on the held examples
    notes: tuple[str, ...] = ()  # what was left out of the data, and why
    single_updates: int = 0  # updates that hold one example, so that they are the example
    recovered: int = 0  # evicted examples that were learned again
    alarms: int = 0  # of workers whose live model failed on new examples
    min_waiting: int = 1  # examples for which a worker waits
    changed_at_s: float = 0.0  # when the world changed; 0 if it did not
    places: int = 1  # workers that a round can select
    dip_at: int = 0  # number of examples near which the quality dips; 0 for none

    @property
    def candidates_per_place(self) -> float:
        """Number of workers that could have been selected for each place of a round."""
        places = sum(max(row.selected, self.places) for row in self.rounds)
        return sum(row.able for row in self.rounds) / max(places, 1)

    @property
    def example_j(self) -> float:
        """Modelled energy of all devices for each learned example."""
        return self.energy_j / max(self.learned, 1)

    @property
    def recovery_s(self) -> float | None:
        """Time after a change until the quality is within 3 points of before; None if it is not."""
        before = [r.quality for r in self.rounds if r.closed_at_s < self.changed_at_s and r.quality]
        if not before:
            return None
        for row in self.rounds:
            later_s = row.closed_at_s - self.changed_at_s
            if later_s >= 0 and row.quality is not None and row.quality >= before[-1] - _POINTS:
                return later_s
        return None

    @property
    def median_delay_s(self) -> float | None:
        """Median time from the arrival of an example until its update leaves; None without any."""
        return self.delays.median_s if self.delays else None

    @property
    def level_of_forgetness(self) -> float:
        """Number of examples forgotten per example learned."""
        return self.evicted / self.learned if self.learned else 0.0

    @property
    def operations(self) -> int:
        """Number of multiply-adds of all workers."""
        return self.energy.operations

    @property
    def energy_j(self) -> float:
        """Modelled energy of all devices in joules: computing and radio."""
        return self.energy.whole_j

    @property
    def quality_error(self) -> float:
        """Standard error of the quality, because the test set is of limited size."""
        return standard_error(self.metric, self.quality or 0.0, self.tested)

    def __repr__(self) -> str:
        """Return what people ask for first; `as_dict` has everything."""
        quality = "" if self.quality is None else f", {self.metric} {self.quality:.4f}"
        exact = "exact" if self.exact else "NOT EXACT"
        return (
            f"Outcome({self.scheme} on {self.job}: {self.workers} workers, {len(self.rounds)} "
            f"rounds, {self.learned:,} learned, {self.evicted:,} forgotten{quality}, {exact})"
        )

    @property
    def exact(self) -> bool:
        """Whether the server's digest equals that of central training on the held examples."""
        return self.digest == self.central_digest

    @property
    def battery_per_day(self) -> float | None:
        """Share of a battery that a phone spends in a day, on average; None if unknown."""
        span_j = self.capacity_j * self.virtual_s / 86_400.0
        return self.energy_j / span_j if span_j else None

    @property
    def jain(self) -> float:
        """Jain's index of fairness over the selections of workers: 1 if all are equal."""
        picks = [participant.selected for participant in self.participants]
        squares = sum(pick * pick for pick in picks)
        return sum(picks) ** 2 / (len(picks) * squares) if squares else 1.0

    @property
    def least_share(self) -> float:
        """Share of the rounds in which the worker selected least was selected."""
        return min([participant.selected for participant in self.participants] or [0]) / max(
            len(self.rounds), 1
        )

    @property
    def by_majority(self) -> int:
        """Number of rounds closed by a majority of replies."""
        return sum(row.reason == "majority" for row in self.rounds)

    @property
    def by_ttl(self) -> int:
        """Number of rounds closed by the time to live."""
        return sum(row.reason == "time to live" for row in self.rounds)

    def measures(self) -> dict[str, float]:
        """Return the values that are averaged over seeds, by name."""
        figures = {
            "rounds": float(len(self.rounds)),
            "rounds by majority": float(self.by_majority),
            "rounds by time to live": float(self.by_ttl),
            self.metric: self.quality,
            "examples learned": float(self.learned),
            "examples evicted": float(self.evicted),
            "updates": float(self.updates),
            "wake-ups": float(self.energy.wake_ups),
            "energy_j": self.energy_j,
            "compute_j": self.energy.compute_j,
            "radio_j": self.energy.radio_j,
            "own bursts per training": self.energy.own_bursts,
            "median_delay_s": self.median_delay_s,
            "mean_delay_s": self.delays and self.delays.mean_s,
            "p90_delay_s": self.delays and self.delays.p90_s,
            "virtual_s": self.virtual_s,
        }
        return {name: figure for name, figure in figures.items() if figure is not None}

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        derived = {name: getattr(self, name) for name in _DERIVED}
        return dataclasses.asdict(self) | derived | {"energy": self.energy.as_dict()}
