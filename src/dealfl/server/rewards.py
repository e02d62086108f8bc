"""What a worker earns in a round: prompt, much and cheap is best.

Each part has a figure that counts half, so that none is at its end for the phones and jobs there
are: arriving after a twentieth of the time to live, twenty examples, and a third of a joule, which
is about what waking a phone and its radio takes. Energy may count by the example instead: then a
worker is not blamed for a training that took more because it learned more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dealfl.errors import BadInput

__all__ = ["RewardWeights", "reward", "reward_parts"]


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """How much speed, data and saved energy weigh, and what of each counts half.

    `half_time` is a share of the time to live; with 0 speed is plainly 1 − t/TTL, as in the paper.
    With `half_example_j` above 0 it is the energy an example took that counts, and not
    `half_energy_j`; it also enters what a worker is worth in advance.
    """

    speed: float = 1.0
    volume: float = 1.0
    energy: float = 1.0
    half_time: float = 0.05
    half_data: float = 20.0
    half_energy_j: float = 0.3
    half_example_j: float = 0.0

    def __post_init__(self) -> None:
        """Refuse weights that can not be averaged."""
        weights = (self.speed, self.volume, self.energy)
        if min(weights) < 0 or sum(weights) <= 0:
            raise BadInput(f"reward weights must be from 0 on and not all 0, not {weights}")
        if self.half_time < 0 or self.half_data <= 0 or self.half_energy_j <= 0:
            raise BadInput("half_time must be from 0 on, half_data and half_energy_j above 0")
        if not 0 <= self.half_example_j < math.inf:
            raise BadInput(f"half_example_j must be from 0 on, not {self.half_example_j}")


def reward(
    weights: RewardWeights, *, elapsed_s: float, ttl_s: float, learned: int, energy_j: float
) -> float:
    """Return the reward in [0, 1]; after the time to live it is 0.

    >>> half = {"ttl_s": 60, "learned": 20, "energy_j": 0.3}
    >>> round(reward(RewardWeights(), elapsed_s=3, **half), 3)
    0.492
    """
    if elapsed_s > ttl_s:
        return 0.0
    speed, volume, thrift = reward_parts(
        weights, elapsed_s=elapsed_s, ttl_s=ttl_s, learned=learned, energy_j=energy_j
    )
    earned = weights.speed * speed + weights.volume * volume + weights.energy * thrift
    return earned / (weights.speed + weights.volume + weights.energy)


def reward_parts(
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
