"""Rounds that a selector plays, and its state as a ledger stores it."""

from collections.abc import Sequence

import numpy as np

from dealfl.server.selection import Candidate, Selector

Parts = dict[str, bytes]
NAMES = [f"w{number}" for number in range(8)]


def candidates(names: Sequence[str], weight: float = 100.0) -> list[Candidate]:
    return [Candidate(name, weight) for name in names]


def awake(number: int) -> list[str]:
    draw = np.random.default_rng([5, number])
    return [name for name in NAMES if draw.random() < 0.7]


def play(one: Selector, numbers: range, count: int = 3, silent: str = "") -> list[list[str]]:
    """Play rounds; the later a name, the more it earns, but for one that never answers."""
    chosen = []
    for number in numbers:
        names = one.select(number, candidates(awake(number)), count)
        for name in names:
            if name != silent:
                one.record_reward(number, name, (NAMES.index(name) + 1) / 10)
        chosen.append(names)
    return chosen


def save(one: Selector, before: Parts | None = None) -> Parts:
    """Return the stored parts after the changes since the last call."""
    after = (before or {}) | dict(one.changes())
    return {name: part for name, part in after.items() if part}
