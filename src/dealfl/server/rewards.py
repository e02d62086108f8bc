"""What a worker earns in a round: prompt, much and cheap is best."""

from __future__ import annotations

from dataclasses import dataclass

from dealfl.errors import BadInput

__all__ = ["RewardWeights", "reward"]


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """How much speed, data and saved energy weigh, and what counts as much data or energy."""

    speed: float = 1.0
    volume: float = 1.0
    energy: float = 1.0
    much_data: int = 100
    much_energy_j: float = 10.0

    def __post_init__(self) -> None:
        """Refuse weights that can not be averaged."""
        weights = (self.speed, self.volume, self.energy)
        if min(weights) < 0 or sum(weights) <= 0 or self.much_data < 1 or self.much_energy_j <= 0:
            raise BadInput(f"reward weights must be from 0 on and not all 0, not {weights}")


def reward(
    weights: RewardWeights, *, elapsed_s: float, ttl_s: float, learned: int, energy_j: float
) -> float:
    """Return the reward in [0, 1]; after the time to live it is 0.

    >>> reward(RewardWeights(), elapsed_s=30, ttl_s=60, learned=100, energy_j=0)
    0.8333333333333334
    """
    if elapsed_s > ttl_s:
        return 0.0
    speed = 1.0 - max(elapsed_s, 0.0) / ttl_s
    volume = min(max(learned, 0) / weights.much_data, 1.0)
    thrift = 1.0 - min(max(energy_j, 0.0) / weights.much_energy_j, 1.0)
    earned = weights.speed * speed + weights.volume * volume + weights.energy * thrift
    return earned / (weights.speed + weights.volume + weights.energy)
