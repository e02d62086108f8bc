"""The results of a simulation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from dealfl.server.selection import OverPromise
from dealfl.simulate.energy import FleetEnergy
from dealfl.simulate.evaluation import Trivial, standard_error

__all__ = ["Outcome", "Participant", "Progress", "Round"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A closed round. Energies are modelled sums over all devices since the start.

    Parameters
    ----------
    number : int
        Number of the round: 1, 2, 3, …
    reason : str
        Reason for closing: "majority", "time to live" or "declined".
    duration_s, closed_at_s : float
        Virtual time from opening to closing, and from the start to closing, in seconds.
    quality : float or None
        Quality of the model after the round; None if it was not evaluated.
    able, selected, replied : int
        Number of workers that could have been selected, were selected, and sent an update.
    learned, evicted : int
        Number of examples learned and evicted since the last round.
    compute_j, operating_j, radio_j : float
        Energy of computing, its part that is proportional to the operations, and energy of the
        radio, in joules.
    """

    number: int
    reason: str
    duration_s: float
    closed_at_s: float
    quality: float | None
    able: int
    selected: int
    replied: int
    learned: int
    evicted: int
    compute_j: float
    operating_j: float
    radio_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """The total work of one worker, and its modelled cost.

    Parameters
    ----------
    name, device : str
        Name of the worker, and kind of device.
    selected, replied : int
        Number of rounds in which it was selected, and in which it sent an update.
    learned, held : int
        Number of examples learned, and held at the end.
    compute_j, operating_j, radio_j : float
        Energies, as in `Round`.
    by_cause_j : dict of str to float
        Energy by cause, in joules.
    battery : float
        Charge of the battery at the end, as a share of its capacity.
    forget_fraction : float
        Its θ at the end, assigned by the job or the server; bad evictions lower it.
    """

    name: str
    device: str
    selected: int
    replied: int
    learned: int
    held: int
    compute_j: float
    operating_j: float
    radio_j: float
    by_cause_j: dict[str, float]
    battery: float
    forget_fraction: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a simulation.

    Parameters
    ----------
    rounds, of_rounds : int
        Number of closed rounds, and of rounds after which the job ends.
    virtual_s : float
        Virtual time in seconds since the start.
    quality : float or None
        Last quality of the model; None before the first evaluation.
    workers, asleep, selected : int
        Number of workers, of those asleep, and of those that train now.
    learned, evicted : int
        Number of examples learned and evicted.
    compute_j, operating_j, radio_j : float
        Energies, as in `Round`.
    last : Round or None
        Last closed round.
    """

    rounds: int
    of_rounds: int
    virtual_s: float
    quality: float | None
    workers: int
    asleep: int
    selected: int
    learned: int
    evicted: int
    compute_j: float
    operating_j: float
    radio_j: float
    last: Round | None


_DERIVED = (
    "exact", "level_of_forgetness", "quality_error", "battery_per_day", "candidates_per_place",
    "jain", "least_share", "by_majority", "by_ttl", "operations", "energy_j",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The results of a simulation. Energy is modelled from the work; time is virtual.

    Parameters
    ----------
    job, scheme, learner : str
        Names of the job, the scheme and the learner.
    seed, workers, places : int
        Seed of the simulation, number of workers, and how many of them a round can select.
    rounds : tuple of Round
        Closed rounds.
    participants : tuple of Participant
        Results by worker.
    ended : str
        Reason for the end, such as "all rounds" or "converged".
    metric : str
        Name of the quality, such as "accuracy".
    quality : float or None
        Quality of the final model on the test share; None if it cannot be computed.
    tested, trivial : int, Trivial
        Size of the test set, and what a prediction without a model reaches on it.
    selector : str
        Name of the policy that selected the workers.
    learned, evicted : int
        Number of examples learned and evicted.
    quarantined, first_quarantined : int, str
        Number of records that cannot be learned, and the reason for the first of them.
    not_learned, updates : int
        Number of examples that were not learned at the end, and of updates in the model.
    energy : FleetEnergy
        Energy of all devices.
    capacity_j : float
        Capacity of all batteries together, in joules; 0 if unknown.
    median_delay_s : float or None
        Median time from the arrival of an example until its update leaves, in seconds.
    unmet_guarantees : OverPromise or None
        Workers whose fairness guarantees cannot be met.
    prediction_error : float or None
        Median relative error of the server's last time predictions.
    virtual_s : float
        Virtual time of the last round's end, in seconds.
    digest, central_digest : str
        Digest of the server's statistics, and of central training on the held examples.
    notes : tuple of str
        What was left out of the data, and why.
    single_updates, recovered, dip_at : int
        Number of updates of rounds that hold one example: such an update is the example; of evicted
        examples that were learned again, because the model was worse without; and of examples near
        which the quality of this learner dips, which is that of its features, or 0.
    """

    job: str
    scheme: str
    learner: str
    seed: int
    workers: int
    rounds: tuple[Round, ...]
    participants: tuple[Participant, ...]
    ended: str
    metric: str
    quality: float | None
    tested: int
    trivial: Trivial
    selector: str
    learned: int
    evicted: int
    quarantined: int
    first_quarantined: str
    not_learned: int
    updates: int
    energy: FleetEnergy
    capacity_j: float
    median_delay_s: float | None
    unmet_guarantees: OverPromise | None
    prediction_error: float | None
    virtual_s: float
    digest: str
    central_digest: str
    notes: tuple[str, ...] = ()
    single_updates: int = 0
    recovered: int = 0
    places: int = 1
    dip_at: int = 0

    @property
    def candidates_per_place(self) -> float:
        """Number of workers that could have been selected for each place of a round."""
        places = sum(max(one.selected, self.places) for one in self.rounds)
        return sum(one.able for one in self.rounds) / max(places, 1)

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
        picks = [one.selected for one in self.participants]
        squares = sum(pick * pick for pick in picks)
        return sum(picks) ** 2 / (len(picks) * squares) if squares else 1.0

    @property
    def least_share(self) -> float:
        """Share of the rounds in which the worker selected least was selected."""
        return min([one.selected for one in self.participants] or [0]) / max(len(self.rounds), 1)

    @property
    def by_majority(self) -> int:
        """Number of rounds closed by a majority of replies."""
        return sum(one.reason == "majority" for one in self.rounds)

    @property
    def by_ttl(self) -> int:
        """Number of rounds closed by the time to live."""
        return sum(one.reason == "time to live" for one in self.rounds)

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
            "virtual_s": self.virtual_s,
        }
        return {name: figure for name, figure in figures.items() if figure is not None}

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        derived = {name: getattr(self, name) for name in _DERIVED}
        return dataclasses.asdict(self) | derived | {"energy": self.energy.as_dict()}
