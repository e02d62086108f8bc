"""The terms of a job, as far as the server needs them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from dealfl.server.rewards import RewardWeights
from dealfl.settings import Amount, Count, Formerly, Positive, Share, settle

__all__ = ["Terms"]


class Terms(Struct, frozen=True, kw_only=True):
    """How many workers take part, for how long, and when the job ends."""

    rounds: Annotated[Count, Meta(description="number of rounds after which the job ends")] = 20
    workers_per_round: Annotated[Count, Meta(description="workers that a round needs")] = 10
    min_workers: Annotated[
        Count,
        Formerly("least_workers"),
        Meta(description="a round does not open for fewer available workers"),
    ] = 1
    min_waiting: Annotated[
        Count,
        Formerly("least_waiting"),
        Meta(description="a worker is not woken for fewer examples, unless they waited too long"),
    ] = 1
    max_wait_s: Annotated[
        Amount,
        Formerly("longest_wait_s"),
        Meta(description="after this time a worker is woken for any number of examples"),
    ] = 86_400.0
    round_every_s: Annotated[
        Amount,
        Meta(description="shortest time between two rounds; 0 opens one whenever it can"),
    ] = 0.0
    over_select: Annotated[
        float,
        Meta(ge=1, description="factor of additional workers selected, for those that stay silent"),
    ] = 1.0
    ttl_s: Annotated[Positive, Meta(description="time to live of a round")] = 60.0
    presence_timeout_s: Annotated[
        Positive,
        Formerly("heard_within_s"),
        Meta(
            description="a worker is asleep if it sent no message for this time; "
            "by default 3 × announce_every_s"
        ),
    ] = 180.0
    battery_budget: Annotated[
        Share, Meta(description="share of a battery that may be spent in 24 hours")
    ] = 0.02
    tolerance: Annotated[
        Amount,
        Meta(description="relative change of the model below which it has converged; 0: never"),
    ] = 0.0
    patience: Annotated[
        Count, Meta(description="consecutive rounds that must stay below the tolerance")
    ] = 3
    publish_every_s: Annotated[
        Amount,
        Meta(description="late updates are published with the next round, or after this time"),
    ] = 3600.0
    release_batch: int = 1
    release_deadline_s: float = 86_400.0
    rewards: RewardWeights = RewardWeights()

    def __post_init__(self) -> None:
        """Refuse terms under which no round could ever close."""
        settle(self)

    @property
    def selected(self) -> int:
        """How many workers are selected for a round."""
        return round(self.workers_per_round * self.over_select)
