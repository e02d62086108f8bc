"""What came out of a simulation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from dealfl.server.selection import OverPromise
from dealfl.simulate.energy import FleetEnergy

__all__ = ["Outcome", "Participant", "Progress", "Round"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A closed round; `quality` is that of the model after it, where it was asked for.

    `able` could have been selected. `operating_j` is the part of `compute_j` that goes with the
    operations, the rest is what each call takes. Energy is that of all devices since the start,
    modelled.
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
    """What one worker did in all, and what that cost its device, modelled."""

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
    """How far a simulation has come."""

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
    """A whole simulation; energy is modelled from the work done, time is virtual."""

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
    first_quarantined: str  # why
    not_learned: int
    updates: int
    energy: FleetEnergy
    over_promised: OverPromise | None  # workers whose promised share of rounds can not be kept
    prediction_error: float | None  # median, of the times that the server expected last
    virtual_s: float
    digest: str
    central_digest: str
    notes: tuple[str, ...] = ()  # what was left out of the data, and why

    @property
    def operations(self) -> int:
        """The operations of all workers."""
        return self.energy.operations

    @property
    def energy_j(self) -> float:
        """The energy of all devices, modelled: computing and the radio."""
        return self.energy.whole_j

    @property
    def exact(self) -> bool:
        """Whether the server's digest is that of central training on what workers still hold."""
        return self.digest == self.central_digest

    @property
    def by_majority(self) -> int:
        """How many rounds more than half of the assigned closed."""
        return sum(one.reason == "majority" for one in self.rounds)

    @property
    def by_ttl(self) -> int:
        """How many rounds the time to live closed."""
        return sum(one.reason == "time to live" for one in self.rounds)

    def measures(self) -> dict[str, float]:
        """Return the figures that are averaged over seeds."""
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
        """Return plain values, for JSON."""
        extra = {
            "exact": self.exact,
            "by_majority": self.by_majority,
            "by_ttl": self.by_ttl,
            "operations": self.operations,
            "energy_j": self.energy_j,
            "energy": self.energy.as_dict(),
        }
        return dataclasses.asdict(self) | extra
