"""Random numbers by their place: any (seed, round, arm) has its own, whoever asks in what order.

A round has two independent keys of 64 bits, so that no round is a shifted copy of another: the
first enters before the first multiplication of SplitMix64's mixer, the second between the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["round_keys", "uniforms", "words"]

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_MASK = (1 << 64) - 1


def _mixed(word: int) -> int:
    word = (word ^ (word >> 30)) * _FIRST & _MASK
    word = (word ^ (word >> 27)) * _SECOND & _MASK
    return word ^ (word >> 31)


def round_keys(seed: int, round_number: int, purpose: int = 0) -> tuple[int, int]:
    """Return the two keys of a round; each purpose has numbers of its own.

    >>> round_keys(0, 1) == round_keys(0, 1), round_keys(0, 1) == round_keys(1, 0)
    (True, False)
    """
    word = _mixed((seed + _GOLDEN) & _MASK)
    word = _mixed((word ^ (round_number * _GOLDEN)) & _MASK)
    first = _mixed((word + purpose * _SECOND + _FIRST) & _MASK)
    return first, _mixed((first ^ _GOLDEN) & _MASK)


def words(keys: tuple[int, int], arms: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 random bits for each arm."""
    word = arms * np.uint64(_GOLDEN)
    word ^= np.uint64(keys[0])
    word ^= word >> np.uint64(30)
    word *= np.uint64(_FIRST)
    word += np.uint64(keys[1])
    word ^= word >> np.uint64(27)
    word *= np.uint64(_SECOND)
    word ^= word >> np.uint64(31)
    return word


def uniforms(keys: tuple[int, int], arms: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number in (0, 1) for each arm.

    >>> uniforms(round_keys(7, 1), np.arange(3, dtype=np.uint64)).round(3).tolist()
    [0.515, 0.769, 0.723]
    """
    bits = words(keys, arms) >> np.uint64(12)
    return (bits.astype(np.float64) + 0.5) * 2.0**-52
