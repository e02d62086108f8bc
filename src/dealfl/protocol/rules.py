"""The rules of a job: rounds, their workers, their end, the weights of rewards, selectors."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from dealfl.errors import BadInput
from dealfl.protocol.messages import Sleep
from dealfl.registry import Names
from dealfl.settings import Amount, Count, Fraction, OneOf, Positive, Share, Text, normalise

SELECTORS = Names(
    "dealfl.selectors", ("uniform", "everyone", "fair_ucb", "thompson", "discounted", "oort")
)
"""The names of the selectors; `dealfl.server.selection` has their classes."""


class RewardWeights(Struct, frozen=True):
    """The weights of speed, volume and energy in a reward, and where each counts half."""

    speed: Annotated[Amount, Meta(description="weight of a prompt reply")] = 1.0
    volume: Annotated[Amount, Meta(description="weight of many examples")] = 1.0
    energy: Annotated[Amount, Meta(description="weight of low energy")] = 1.0
    half_time: Annotated[
        Amount,
        Meta(
            description="share of the time to live after which speed counts half; "
            "0: speed is 1 − t/TTL, as in the paper"
        ),
    ] = 0.05
    half_energy_j: Annotated[
        Positive, Meta(description="energy of a training with which energy counts half")
    ] = 0.3
    half_example_j: Annotated[
        Amount,
        Meta(
            description="energy per example with which energy counts half, here and in a worker's "
            "weight; 0: the energy of the whole training counts, in the reward only"
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        """Refuse weights that have no mean."""
        normalise(self)
        if not self.speed + self.volume + self.energy > 0:
            raise BadInput("speed, volume and energy are all 0; at least one must be > 0")


class Rules(Struct, frozen=True, kw_only=True):
    """How many workers take part in a round, how long it lasts, and when the job ends."""

    rounds: Annotated[Count, Meta(description="number of rounds after which the job ends")] = 20
    workers_per_round: Annotated[Count, Meta(description="replies that a round aims at")] = 10
    min_workers: Annotated[
        Count,
        Meta(description="minimum number of available workers to open a round"),
    ] = 1
    min_waiting: Annotated[
        Count,
        Meta(description="minimum number of waiting examples to wake a worker"),
    ] = 1
    max_wait_s: Annotated[
        Amount,
        Meta(description="time after which a worker is woken for any number of examples"),
    ] = 86_400.0
    wait_j: Annotated[
        Amount,
        Meta(
            description="energy that an hour's wait of an example is worth: a worker sleeps until "
            "√(2 · price of a call · examples an hour / wait_j) wait, or `min_waiting`; 0: off"
        ),
    ] = 0.0
    ride_along: Annotated[
        bool,
        Meta(description="sleeping workers call while other traffic of the phone has its radio on"),
    ] = False
    ride_wait_s: Annotated[
        Amount, Meta(description="time for which a worker with enough examples waits for a ride")
    ] = 7200.0
    round_every_s: Annotated[
        Amount,
        Meta(description="minimum time between two rounds; 0: as soon as possible"),
    ] = 0.0
    over_select: Annotated[
        float,
        Meta(ge=1, description="factor of additional workers, because some do not reply"),
    ] = 1.0
    ttl_s: Annotated[Positive, Meta(description="time to live of a round")] = 60.0
    presence_timeout_s: Annotated[
        Positive,
        Meta(
            description="a worker is asleep if it sent no message for this time; "
            "by default when its connection ends, in simulations 3 × faults.announce_every_s"
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
    max_examples: Annotated[
        Count,
        Meta(description="examples of one worker in the model; a worker with more is refused"),
    ] = 1_000_000
    max_cells: Annotated[
        Count,
        Meta(description="non-zero integers in a worker's statistics; more are refused"),
    ] = 2**24
    forget_by: Annotated[
        str,
        OneOf(("job", "battery", "memory", "forgetness")),
        Meta(
            description="θ of a worker: that of the job, or between the limits below: more with "
            "a fuller battery, with more of `max_examples` held, or with less forgotten so far"
        ),
    ] = "job"
    min_forget_fraction: Annotated[
        Fraction, Meta(description="lowest θ that the server assigns by `forget_by`")
    ] = "0"
    max_forget_fraction: Annotated[
        Fraction, Meta(description="highest θ that the server assigns by `forget_by`")
    ] = "0.1"
    evicted_share: float = 1.0
    min_examples_per_update: Annotated[
        Count,
        Meta(description="minimum number of new examples in an update; a worker with fewer waits"),
    ] = 1
    release_batch: Annotated[
        Count,
        Meta(
            description="minimum number of persons who left the model, by erasure or eviction, "
            "between two versions; 1: publish at once"
        ),
    ] = 1
    release_deadline_s: Annotated[
        Amount, Meta(description="maximum time that `release_batch` delays a version")
    ] = 86_400.0
    regions: Annotated[
        tuple[Text, ...],
        Meta(
            description="names of regions: servers that report to this one; limits for one worker "
            "(`max_examples`, `max_cells`, claims) do not apply to them"
        ),
    ] = ()
    rewards: RewardWeights = RewardWeights()

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        normalise(self)
        low, high = self.min_forget_fraction, self.max_forget_fraction
        if float(low) > float(high):
            raise BadInput(
                f"min_forget_fraction is {low}; it must be ≤ max_forget_fraction, which is {high}"
            )

    @property
    def selected(self) -> int:
        """Number of workers to select for a round."""
        return round(self.workers_per_round * self.over_select)

    def make_sleep(self, job: str, worker: str, waiting: int, within_s: float) -> Sleep:
        """Return when a sleeping worker calls; from half the time on it rides with any number."""
        ride_s = self.ride_wait_s if self.ride_along else 0.0
        return Sleep(
            job=job,
            worker=worker,
            waiting=waiting,
            within_s=within_s,
            ride_s=ride_s,
            ride_any_s=within_s / 2.0 if ride_s else 0.0,
        )
