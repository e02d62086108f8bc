"""Random integers that depend only on the seed, not on the machine or the version of numpy.

Hyperplanes, filters and weights are settings of a job and must never change: forgetting would
look in the wrong bucket. The distributions of numpy can change between versions; a hash cannot.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

# constants of SplitMix64
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
MIXERS = _GOLDEN, _FIRST, _SECOND
_MASK = (1 << 64) - 1


def seeded_bytes(seed: int, purpose: str, count: int) -> NDArray[np.uint8]:
    """Return uniform bytes that depend only on the seed and the purpose.

    Examples
    --------
    >>> seeded_bytes(0, "example", 4).tolist()
    [185, 118, 197, 63]
    """
    stream = hashlib.shake_256(f"dealfl/{purpose}/{seed}".encode())
    return np.frombuffer(stream.digest(count), dtype=np.uint8)


def seeded_sums(seed: int, purpose: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return symmetric, nearly normal integers in [-510, 510]: sums of four uniform bytes.

    Examples
    --------
    >>> seeded_sums(0, "example", (3,)).tolist()
    [53, -98, 124]
    """
    four = seeded_bytes(seed, purpose, 4 * int(np.prod(shape))).reshape(*shape, 4)
    sums: NDArray[np.int64] = four.sum(axis=-1, dtype=np.int64) - 510
    return sums


# Random numbers by position: each (seed, round, arm) has its own, in whatever order they are used.
# A round has two independent keys of 64 bits, so that no round is a shifted copy of another: the
# first enters before the first multiplication of SplitMix64's mixer, the second between the two.


def _mixed(word: int) -> int:
    word = (word ^ (word >> 30)) * _FIRST & _MASK
    word = (word ^ (word >> 27)) * _SECOND & _MASK
    return word ^ (word >> 31)


def round_keys(seed: int, round_number: int, purpose: int = 0) -> tuple[int, int]:
    """Return the two keys of the random numbers of a round.

    Examples
    --------
    >>> round_keys(0, 1) == round_keys(0, 1), round_keys(0, 1) == round_keys(1, 0)
    (True, False)
    """
    word = _mixed((seed + _GOLDEN) & _MASK)
    word = _mixed((word ^ (round_number * _GOLDEN)) & _MASK)
    first = _mixed((word + purpose * _SECOND + _FIRST) & _MASK)
    return first, _mixed((first ^ _GOLDEN) & _MASK)


def words(keys: tuple[int, int], arms: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 random bits for each arm.

    References
    ----------
    .. [1] G. L. Steele Jr., D. Lea, C. H. Flood: Fast splittable pseudorandom number generators.
       OOPSLA 2014.
    """
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
    """Return a uniform random number in (0, 1) for each arm.

    Examples
    --------
    >>> uniforms(round_keys(7, 1), np.arange(3, dtype=np.uint64)).round(3).tolist()
    [0.515, 0.769, 0.723]
    """
    bits = words(keys, arms) >> np.uint64(12)
    return (bits.astype(np.float64) + 0.5) * 2.0**-52
