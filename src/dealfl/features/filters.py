"""Seeded int8 filters for image patches: random mixtures of cosine patches."""

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.seeded import seeded_sums

__all__ = ["LENGTH", "mixed_filters"]

LENGTH = 256  # the Euclidean norm of a filter: a response is in 1/256 grey levels
PEAK = 4096


def mixed_filters(
    seed: int, count: int, channels: int, size: int, gain: float
) -> NDArray[np.int64]:
    """Return `count` filters of `channels` x `size` x `size` integers in −127 .. 127.

    The norm of a filter is 256, or less where a value would exceed 127. The weight of a cosine
    patch is proportional to its frequency to the power of `gain`: photographs have little energy at
    high frequencies, and a gain of 1/2 compensates half of that. A gain of 0 gives white Gaussian
    filters.

    Examples
    --------
    >>> mixed_filters(seed=0, count=1, channels=1, size=2, gain=0.5)[0, 0].tolist()
    [[0, -5], [-122, 127]]
    """
    drawn = seeded_sums(seed, "patches/mixture", (count, channels, size, size))
    cosines = cosine_basis(size)
    mixtures = cosines.T @ (drawn * frequency_gain(size, gain)) @ cosines
    flat = mixtures.reshape(count, -1)
    peak = np.maximum(np.abs(flat).max(axis=1, keepdims=True), 1)
    flat = flat * PEAK // peak  # small enough for an exact sum of squares in any order
    norm = np.sqrt((flat * flat).sum(axis=1, keepdims=True))
    unit = np.maximum(norm / LENGTH, PEAK / 127)
    whole: NDArray[np.int64] = np.rint(flat / unit).astype(np.int64)
    return whole.reshape(mixtures.shape)


def cosine_basis(size: int) -> NDArray[np.int64]:
    """Return the discrete cosine transform of `size` points in 64ths, one frequency per row.

    Examples
    --------
    >>> cosine_basis(2).tolist()
    [[45, 45], [45, -45]]
    """
    frequency, place = np.mgrid[:size, :size]
    cosines = np.cos(np.pi * frequency * (2 * place + 1) / (2 * size))
    cosines[0] *= np.sqrt(0.5)
    return steady_round(64 * cosines)


def frequency_gain(size: int, gain: float) -> NDArray[np.int64]:
    """Return frequency^gain in 16ths for each pair of vertical and horizontal frequencies.

    Examples
    --------
    >>> frequency_gain(2, gain=0.5).tolist()
    [[0, 16], [16, 19]]
    """
    vertical, horizontal = np.mgrid[:size, :size]
    squared = (vertical**2 + horizontal**2).astype(np.float64)
    return steady_round(16 * squared ** (gain / 2))


def steady_round(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round values whose last bits can differ between machines, such as cosines and powers.

    Examples
    --------
    >>> steady_round(np.array([0.4999999999]))
    Traceback (most recent call last):
    dealfl.errors.BadInput: 0.4999999999 is too close to a half to be rounded ...
    """
    near = np.abs(values - np.floor(values) - 0.5) < 1e-9
    if near.any():
        value = values[near][0]
        raise BadInput(
            f"{value} is too close to a half to be rounded in the same way on every machine; "
            "change size or gain slightly"
        )
    return np.rint(values).astype(np.int64)
