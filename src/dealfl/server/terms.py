"""The terms of a job for the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from dealfl.errors import BadInput
from dealfl.server.rewards import RewardWeights
from dealfl.server.tables import WorkerRow
from dealfl.settings import Amount, Count, Formerly, Fraction, OneOf, Positive, Share, settle

__all__ = ["Terms"]

_SHARES: dict[str, Callable[[WorkerRow, Terms], float]] = {
    "battery": lambda row, _: 1.0 if row.charging else row.battery,
    "memory": lambda row, terms: min(row.held / terms.max_examples, 1.0),
    "forgetness": lambda row, _: max(1.0 - row.evicted / max(row.learned, 1), 0.0),
}


class Terms(Struct, frozen=True, kw_only=True):
    """How many workers take part in a round, how long it lasts, and when the job ends.

    Parameters
    ----------
    rounds : int
        Number of rounds after which the job ends.
    workers_per_round : int
        Number of replies that a round aims at.
    min_workers : int
        Minimum number of available workers to open a round.
    min_waiting : int
        Minimum number of waiting examples to wake a worker.
    max_wait_s : float
        Time in seconds after which a worker is woken for any number of examples.
    round_every_s : float
        Minimum time between the openings of two rounds, in seconds.
    over_select : float
        Factor of additional workers, because some do not reply.
    ttl_s : float
        Time to live of a round, in seconds.
    presence_timeout_s : float
        A worker is asleep if it sent no message for this time, in seconds.
    battery_budget : float
        Share of a battery that may be spent in 24 hours.
    tolerance : float
        Relative change of the model below which it has converged; 0 disables the check.
    patience : int
        Number of consecutive rounds that must stay below the tolerance.
    publish_every_s : float
        Late updates are published with the next round, or after this time in seconds.
    max_examples, max_cells : int
        Number of examples (of items in histories) and of non-zero integers that one worker may have
        in the model. A worker with more is refused, so that no worker can fill the total.
    forget_by : str
        What determines the θ that the server assigns to a worker: "job" for the same θ, or the
        worker's "battery", "memory" or "forgetness".
    min_forget_fraction, max_forget_fraction : str
        Limits of an assigned θ, as decimals from 0 to 1.
    evicted_share : float
        Share of a worker's examples that its retention policy evicts in a training, at most.
    min_examples_per_update : int
        Minimum number of new examples in an update of a round; a worker with fewer waits.
    release_batch : int
        Minimum number of persons who left the model between two versions; 1 publishes at once.
    release_deadline_s : float
        Maximum time that `release_batch` delays a version, in seconds.
    rewards : RewardWeights
        Weights of the parts of a reward.

    Raises
    ------
    BadInput
        If a value is out of range.
    """

    rounds: Annotated[Count, Meta(description="number of rounds after which the job ends")] = 20
    workers_per_round: Annotated[Count, Meta(description="replies that a round aims at")] = 10
    min_workers: Annotated[
        Count,
        Formerly("least_workers"),
        Meta(description="minimum number of available workers to open a round"),
    ] = 1
    min_waiting: Annotated[
        Count,
        Formerly("least_waiting"),
        Meta(description="minimum number of waiting examples to wake a worker"),
    ] = 1
    max_wait_s: Annotated[
        Amount,
        Formerly("longest_wait_s"),
        Meta(description="time after which a worker is woken for any number of examples"),
    ] = 86_400.0
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
        Formerly("heard_within_s"),
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
        OneOf(("job", *_SHARES)),
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
    rewards: RewardWeights = RewardWeights()

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        settle(self)
        low, high = self.min_forget_fraction, self.max_forget_fraction
        if float(low) > float(high):
            raise BadInput(
                f"min_forget_fraction is {low}; it must be ≤ max_forget_fraction, which is {high}"
            )

    @property
    def selected(self) -> int:
        """Number of workers to select for a round."""
        return round(self.workers_per_round * self.over_select)

    def assign_fraction(self, row: WorkerRow) -> str | None:
        """Return the θ of a worker's next training, with six decimals.

        Parameters
        ----------
        row : WorkerRow
            State of the worker, as it announced it.

        Returns
        -------
        str or None
            A decimal; None if all workers use the θ of the job.

        Examples
        --------
        >>> terms = Terms(forget_by="battery", min_forget_fraction="0.02")
        >>> terms.assign_fraction(WorkerRow("w", battery=0.5))
        '0.060000'
        """
        if self.forget_by == "job":
            return None
        low, high = float(self.min_forget_fraction), float(self.max_forget_fraction)
        return f"{low + (high - low) * _SHARES[self.forget_by](row, self):.6f}"
