"""What a worker's training is worth, and the θ that the server assigns to its next one.

A fast, large and cheap training earns most. Each part of a reward is a curve with the value 1/2 at
a setting: a reply after a twentieth of the time to live, 20 examples, and 0.3 J, which is about the
energy of waking a phone and its radio. With these values no part saturates on current phones.
Energy may count per example instead, so that a worker is not penalized for learning more.
"""

from __future__ import annotations

from collections.abc import Callable

from dealfl.protocol import RewardWeights, Rules
from dealfl.server.ledger_reader import WorkerRow

_SHARES: dict[str, Callable[[WorkerRow, Rules], float]] = {
    "battery": lambda row, _: 1.0 if row.charging else row.battery,
    "memory": lambda row, rules: min(row.held / rules.max_examples, 1.0),
    "forgetness": lambda row, _: max(1.0 - row.evicted / max(row.learned, 1), 0.0),
}
_HALF_DATA = 20.0  # examples with which volume counts half


def assign_fraction(rules: Rules, row: WorkerRow) -> str | None:
    """Return the θ of a worker's next training, with six decimals.

    Examples
    --------
    >>> rules = Rules(forget_by="battery", min_forget_fraction="0.02")
    >>> assign_fraction(rules, WorkerRow("w", battery=0.5))
    '0.060000'
    """
    if rules.forget_by == "job":
        return None
    low, high = float(rules.min_forget_fraction), float(rules.max_forget_fraction)
    return f"{low + (high - low) * _SHARES[rules.forget_by](row, rules):.6f}"


def compute_reward(
    weights: RewardWeights, *, elapsed_s: float, ttl_s: float, learned: int, energy_j: float
) -> float:
    """Return the weighted mean of the parts in [0, 1]; 0 after the time to live.

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
    """Return speed, volume and thrift, each in [0, 1]."""
    share = min(max(elapsed_s / ttl_s, 0.0), 1.0)
    speed = (1.0 - share) * _half(share, weights.half_time)
    volume = 1.0 - _half(max(learned, 0), _HALF_DATA)
    return speed, volume, _thrift(weights, max(energy_j, 0.0), max(learned, 0))


def _thrift(weights: RewardWeights, energy_j: float, learned: int) -> float:
    if not weights.half_example_j:
        return _half(energy_j, weights.half_energy_j)
    # a training without examples counts as one example
    return _half(energy_j / max(learned, 1), weights.half_example_j)


def _half(figure: float, half: float) -> float:
    """Return a value that falls from 1 to 1/2 at `half`; it stays 1 if `half` is 0."""
    return half / (half + figure) if half else 1.0
