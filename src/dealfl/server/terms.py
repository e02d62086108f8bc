"""The terms of a job, as far as the server needs them."""

from __future__ import annotations

from dataclasses import dataclass, field

from dealfl.errors import BadInput
from dealfl.server.rewards import RewardWeights

__all__ = ["Terms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How many workers, how long, and when it is enough."""

    rounds: int = 20
    workers_per_round: int = 10
    least_workers: int = 1  # a round does not open for fewer
    least_waiting: int = 1  # a worker is not woken for fewer examples,
    longest_wait_s: float = 86_400.0  # unless they have waited for so long
    round_every_s: float = 0.0  # whom to wake is decided no more often
    over_select: float = 1.0
    ttl_s: float = 60.0
    heard_within_s: float = 180.0
    battery_budget: float = 0.02  # of the capacity, in 24 hours
    tolerance: float = 0.0  # of the model's relative change; 0 never converges
    patience: int = 3
    release_batch: int = 1
    release_deadline_s: float = 86_400.0
    rewards: RewardWeights = field(default_factory=RewardWeights)

    def __post_init__(self) -> None:
        """Refuse terms under which no round could ever close."""
        least = min(self.workers_per_round, self.least_workers, self.patience, self.least_waiting)
        if least < 1 or self.rounds < 0:
            raise BadInput(
                "rounds, workers_per_round, least_workers, least_waiting and patience must be "
                "counts"
            )
        if not (self.longest_wait_s >= 0 and self.round_every_s >= 0):
            raise BadInput("longest_wait_s and round_every_s must be from 0 on")
        if not (self.ttl_s > 0 and self.heard_within_s > 0 and self.over_select >= 1):
            raise BadInput("ttl_s and heard_within_s must be above 0, over_select at least 1")

    @property
    def selected(self) -> int:
        """How many workers are asked in a round."""
        return round(self.workers_per_round * self.over_select)
