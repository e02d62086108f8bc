"""What a worker earns in a round: prompt, much and cheap is best.

Each part has a figure that counts half, so that none is at its end for the phones and jobs there
are: arriving after a twentieth of the time to live, twenty examples, and a third of a joule, which
is about what waking a phone and its radio takes. Energy may count by the example instead: then a
worker is not blamed for a training that took more because it learned more.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from dealfl.errors import BadInput
from dealfl.settings import Amount, Positive, settle

__all__ = ["RewardWeights", "compute_reward", "compute_reward_parts"]


class RewardWeights(Struct, frozen=True):
    """The weights of speed, data and saved energy, and the value of each that counts half.

    With `half_example_j` above 0 the energy of an example counts instead of `half_energy_j`; it is
    then also part of a worker's weight in the selection.
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
        """Refuse weights that cannot be averaged."""
        settle(self)
        if not self.speed + self.volume + self.energy > 0:
            raise BadInput("speed, volume and energy are all 0; at least one must be above 0")


def compute_reward(
    weights: RewardWeights, *, elapsed_s: float, ttl_s: float, learned: int, energy_j: float
) -> float:
    """Return the reward in [0, 1]; after the time to live it is 0.

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
    """Return speed, volume and thrift, each in [0, 1]."""
    share = min(max(elapsed_s / ttl_s, 0.0), 1.0)
    speed = (1.0 - share) * _half(share, weights.half_time)
    volume = 1.0 - _half(max(learned, 0), weights.half_data)
    return speed, volume, _thrift(weights, max(energy_j, 0.0), max(learned, 0))


def _thrift(weights: RewardWeights, energy_j: float, learned: int) -> float:
    if not weights.half_example_j:
        return _half(energy_j, weights.half_energy_j)
    # whoever learned nothing has spent it all for less than an example
    return _half(energy_j / max(learned, 1), weights.half_example_j)


def _half(figure: float, half: float) -> float:
    """Return what falls from 1 at nothing by half at `half`; where that is 0, it does not fall."""
    return half / (half + figure) if half else 1.0
