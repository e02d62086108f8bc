"""The same integers for the same seed, on every machine and in every version of numpy.

Hyperplanes, filters and weights that are settings of a job must never change: forgetting would
look in the wrong bucket. numpy's distributions may change between versions, a hash does not.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["seeded_bytes", "seeded_sums"]


def seeded_bytes(seed: int, purpose: str, count: int) -> NDArray[np.uint8]:
    """Return `count` uniform bytes that depend on `seed` and `purpose` alone.

    >>> seeded_bytes(0, "example", 4).tolist()
    [185, 118, 197, 63]
    """
    stream = hashlib.shake_256(f"dealfl/{purpose}/{seed}".encode())
    return np.frombuffer(stream.digest(count), dtype=np.uint8)


def seeded_sums(seed: int, purpose: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return symmetric, nearly normal integers in [-510, 510]: sums of four uniform ones.

    >>> seeded_sums(0, "example", (3,)).tolist()
    [53, -98, 124]
    """
    four = seeded_bytes(seed, purpose, 4 * int(np.prod(shape))).reshape(*shape, 4)
    sums: NDArray[np.int64] = four.sum(axis=-1, dtype=np.int64) - 510
    return sums
