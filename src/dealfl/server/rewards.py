"""The reward of a worker in a round: fast, large and cheap trainings earn most.

Each part is a curve with the value 1/2 at a setting: a reply after a twentieth of the time to live,
20 examples, and 0.3 J, which is about the energy of waking a phone and its radio. With these values
no part saturates on current phones. Energy may count per example instead, so that a worker is not
penalized for learning more.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from dealfl.errors import BadInput
from dealfl.settings import Amount, Positive, settle

__all__ = ["RewardWeights", "compute_reward", "compute_reward_parts"]


class RewardWeights(Struct, frozen=True):
    """The weights of speed, volume and energy in a reward, and the value at which each counts half.

    Parameters
    ----------
    speed : float
        Weight of a fast reply.
    volume : float
        Weight of many examples.
    energy : float
        Weight of low energy.
    half_time : float
        Share of the time to live at which speed counts half; 0 makes speed 1 − t/TTL.
    half_data : float
        Number of examples at which volume counts half.
    half_energy_j : float
        Energy of a training, in joules, at which energy counts half.
    half_example_j : float
        Energy per example, in joules, at which energy counts half. Above 0 it replaces
        `half_energy_j` and also reduces a worker's weight in the selection.

    Raises
    ------
    BadInput
        If a value is out of range, or all three weights are 0.
    """

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
    half_data: Annotated[
        Positive, Meta(description="number of examples with which volume counts half")
    ] = 20.0
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
        settle(self)
        if not self.speed + self.volume + self.energy > 0:
            raise BadInput("speed, volume and energy are all 0; at least one must be > 0")


def compute_reward(
    weights: RewardWeights, *, elapsed_s: float, ttl_s: float, learned: int, energy_j: float
) -> float:
    """Return the reward of a reply.

    Parameters
    ----------
    weights : RewardWeights
        Weights of the parts.
    elapsed_s : float
        Time from the opening of the round to the reply, in seconds.
    ttl_s : float
        Time to live of the round, in seconds.
    learned : int
        Number of examples learned.
    energy_j : float
        Energy of the training, in joules.

    Returns
    -------
    float
        Weighted mean of the parts in [0, 1]; 0 after the time to live.

    Examples
    --------
    >>> half = {"ttl_s": 60, "learned": 20, "energy_j": 0.3}
    >>> round(compute_reward(RewardWeights(), elapsed_s=3, **half), 3)
    0.492
    """
    if elapsed_s > ttl_s:
        return 0.0
    speed, volume, thrift = compute_reward_parts(
        weights, elapsed_s=elapsed_s, ttl_s=ttl_s, learned=learned, energy_j=energy_j
    )
    earned = weights.speed * speed + weights.volume * volume + weights.energy * thrift
    return earned / (weights.speed + weights.volume + weights.energy)


def compute_reward_parts(
    weights: RewardWeights, *, elapsed_s: float, ttl_s: float, learned: int, energy_j: float
) -> tuple[float, float, float]:
    """Return the parts of a reward.

    Parameters
    ----------
    weights : RewardWeights
        Values at which each part counts half.
    elapsed_s : float
        Time from the opening of the round to the reply, in seconds.
    ttl_s : float
        Time to live of the round, in seconds.
    learned : int
        Number of examples learned.
    energy_j : float
        Energy of the training, in joules.

    Returns
    -------
    tuple of float
        Speed, volume and thrift, each in [0, 1].
    """
    share = min(max(elapsed_s / ttl_s, 0.0), 1.0)
    speed = (1.0 - share) * _half(share, weights.half_time)
    volume = 1.0 - _half(max(learned, 0), weights.half_data)
    return speed, volume, _thrift(weights, max(energy_j, 0.0), max(learned, 0))


def _thrift(weights: RewardWeights, energy_j: float, learned: int) -> float:
    if not weights.half_example_j:
        return _half(energy_j, weights.half_energy_j)
    # a training without examples counts as one example
    return _half(energy_j / max(learned, 1), weights.half_example_j)


def _half(figure: float, half: float) -> float:
    """Return a value that falls from 1 to 1/2 at `half`; it stays 1 if `half` is 0."""
    return half / (half + figure) if half else 1.0
