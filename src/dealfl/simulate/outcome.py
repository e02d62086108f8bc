"""The results of a simulation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from dealfl.server.selection import OverPromise
from dealfl.simulate.energy import FleetEnergy

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
    duration_s : float
        Virtual time from opening to closing, in seconds.
    closed_at_s : float
        Virtual time of closing, in seconds since the start.
    quality : float or None
        Quality of the model after the round; None if it was not evaluated.
    able : int
        Number of workers that could have been selected.
    selected : int
        Number of selected workers.
    replied : int
        Number of workers that sent an update.
    learned : int
        Number of examples learned since the last round.
    evicted : int
        Number of examples evicted since the last round.
    compute_j : float
        Energy of computing, in joules.
    operating_j : float
        Part of `compute_j` that is proportional to the operations, in joules.
    radio_j : float
        Energy of the radio, in joules.
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
    name : str
        Name of the worker.
    device : str
        Kind of device.
    selected : int
        Number of rounds in which it was selected.
    replied : int
        Number of rounds in which it sent an update.
    learned : int
        Number of examples learned.
    held : int
        Number of examples held at the end.
    compute_j : float
        Energy of computing, in joules.
    operating_j : float
        Part of `compute_j` that is proportional to the operations, in joules.
    radio_j : float
        Energy of the radio, in joules.
    by_cause_j : dict of str to float
        Energy by cause, in joules.
    battery : float
        Charge of the battery at the end, as a share of its capacity.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a simulation.

    Parameters
    ----------
    rounds : int
        Number of closed rounds.
    of_rounds : int
        Number of rounds after which the job ends.
    virtual_s : float
        Virtual time in seconds since the start.
    quality : float or None
        Last quality of the model; None before the first evaluation.
    workers : int
        Number of workers.
    asleep : int
        Number of workers that are asleep.
    selected : int
        Number of workers that train now.
    learned : int
        Number of examples learned.
    evicted : int
        Number of examples evicted.
    compute_j : float
        Energy of computing, in joules.
    operating_j : float
        Part of `compute_j` that is proportional to the operations, in joules.
    radio_j : float
        Energy of the radio, in joules.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The results of a simulation. Energy is modelled from the work; time is virtual.

    Parameters
    ----------
    job : str
        Name of the job.
    scheme : str
        Name of the scheme.
    learner : str
        Name of the learner.
    seed : int
        Seed of the simulation.
    workers : int
        Number of workers.
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
    learned : int
        Number of examples learned.
    evicted : int
        Number of examples evicted.
    quarantined : int
        Number of records that cannot be learned.
    first_quarantined : str
        Reason for the first of them; empty if there is none.
    not_learned : int
        Number of examples that were not learned when the run ended.
    updates : int
        Number of updates in the model.
    energy : FleetEnergy
        Energy of all devices.
    over_promised : OverPromise or None
        Workers whose fairness guarantees cannot be met.
    prediction_error : float or None
        Median relative error of the server's last time predictions.
    virtual_s : float
        Virtual time of the last round's end, in seconds.
    digest : str
        Digest of the server's statistics.
    central_digest : str
        Digest of central training on the examples that the workers still hold.
    notes : tuple of str
        What was left out of the data, and why.
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
    learned: int
    evicted: int
    quarantined: int
    first_quarantined: str
    not_learned: int
    updates: int
    energy: FleetEnergy
    over_promised: OverPromise | None
    prediction_error: float | None
    virtual_s: float
    digest: str
    central_digest: str
    notes: tuple[str, ...] = ()

    @property
    def operations(self) -> int:
        """Number of multiply-adds of all workers."""
        return self.energy.operations

    @property
    def energy_j(self) -> float:
        """Modelled energy of all devices in joules: computing and radio."""
        return self.energy.whole_j

    @property
    def exact(self) -> bool:
        """Whether the server's digest equals that of central training on the held examples."""
        return self.digest == self.central_digest

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
            "virtual_s": self.virtual_s,
        }
        return {name: figure for name, figure in figures.items() if figure is not None}

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        extra = {
            "exact": self.exact,
            "by_majority": self.by_majority,
            "by_ttl": self.by_ttl,
            "operations": self.operations,
            "energy_j": self.energy_j,
            "energy": self.energy.as_dict(),
        }
        return dataclasses.asdict(self) | extra
