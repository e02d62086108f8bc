"""Image patches: seeded filters on all positions of an image, rectified and pooled.

The filters are int8 and random mixtures of cosine patches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from msgspec.structs import force_setattr
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.exact import seeded_sums, short_float
from dealfl.features.base import (
    EXACT_32,
    FeatureMap,
    Matrix,
    Seed,
    blocks,
    refuse_fractions,
    refuse_outside,
    table_of,
)
from dealfl.settings import Count

LENGTH = 256  # the Euclidean norm of a filter: a response is in 1/256 grey levels
PEAK = 4096
WHITE = 255
LARGEST = 2**16 - 1
FILTERS_AT_ONCE = 128


class Patches(FeatureMap, frozen=True, dict=True, tag="patches"):
    """Pooled responses of seeded filters to images.

    A row of the input holds the pixels of an image, 0 .. 255, channel by channel. Each filter of
    channels x size x size is a mixture of cosine patches and gives a response at every `stride`-th
    position. The excess over `threshold`, for positive and negative responses separately, is summed
    over each cell of a `pool` x `pool` grid, shifted right by `shift` bits and capped at 65,535.
    The features of a filter are adjacent: a map with more filters starts with the features of a
    smaller map of the same seed.

    References
    ----------
    .. [1] A. Coates, H. Lee, A. Y. Ng: An analysis of single-layer networks in unsupervised feature
       learning. AISTATS 2011.

    Examples
    --------
    >>> patches = Patches(n_inputs=64, image=(1, 8, 8), filters=1, pool=1)
    >>> patches.transform(np.eye(8, dtype=np.uint8).reshape(1, 64) * 255)
    array([[23235, 11344]], dtype=uint16)
    """

    image: Annotated[
        tuple[Count, ...], Meta(description="channels, height and width of an image")
    ] = (3, 32, 32)
    filters: Annotated[int, Meta(ge=1, le=65_536, description="number of filters")] = 64
    seed: Seed = 0
    size: Annotated[int, Meta(ge=2, le=64, description="side of a patch")] = 6
    stride: Annotated[Count, Meta(description="distance between two patches")] = 1
    threshold: Annotated[
        float, Meta(ge=0, le=2**16, description="grey levels that a response must exceed")
    ] = 4.0
    gain: Annotated[
        float, Meta(ge=0, le=2, description="exponent of the weight of high frequencies")
    ] = 0.5
    pool: Annotated[Count, Meta(description="cells of the pooling grid along each side")] = 2
    shift: Annotated[
        Annotated[int, Meta(ge=0, le=40)] | None,
        Meta(description="bits by which pooled sums are shifted right; default: about their means"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_what_does_not_fit()
        if self._reach.max() >= EXACT_32:
            raise self._bad("size", "responses reach 2^24: use smaller patches")
        if self.shift is None:
            force_setattr(self, "shift", int(self._grid.sizes.min()).bit_length() - 1)

    @property
    def n_features(self) -> int:
        """Two per filter and cell."""
        return self.filters * 2 * self.pool**2

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """The value for the best matching pixels at every position, and at least 1."""
        sums = np.maximum(self._reach - self._cut, 0)[:, :, None] * self._grid.sizes
        bound: NDArray[np.int64] = np.clip(sums >> self._bits, 1, LARGEST)
        return bound.ravel().astype(np.float64)

    @property
    def input_range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """From 0 to 255."""
        return np.zeros(self.n_inputs), np.full(self.n_inputs, float(WHITE))

    def transform(self, X: Matrix) -> NDArray[np.uint16]:
        """Return the features: filter by filter, positive before negative, cell by cell."""
        rows = table_of(X, self.n_inputs)
        out = np.empty((rows.shape[0], self.filters, 2 * self.pool**2), dtype=np.uint16)
        for part, block in blocks(rows, bytes_per_row=self._bytes_per_image):
            refuse_outside(block, part.start, 0, WHITE, "a pixel lies in 0 .. 255")
            refuse_fractions(block, part.start, "a pixel is a whole number in 0 .. 255")
            patches = self._patches(block)
            for first in range(0, self.filters, FILTERS_AT_ONCE):
                some = slice(first, first + FILTERS_AT_ONCE)
                out[part, some] = self._pooled(patches @ self._weights[:, some])
        return out.reshape(len(out), self.n_features)

    def _refuse_what_does_not_fit(self) -> None:
        if len(self.image) != 3 or math.prod(self.image) != self.n_inputs:
            remedy = f"give channels, height and width of {self.n_inputs} values in all"
            raise self._bad("image", remedy)
        if self.size > min(self.image[1:]):
            raise self._bad("size", f"a patch must fit an image of {list(self.image)}")
        positions = min(self._grid.height, self._grid.width)
        if self.pool > positions:
            raise self._bad("pool", f"it must be at most {positions}, so that no cell is empty")

    def _patches(self, block: NDArray[np.float64]) -> NDArray[Any]:
        """Return one row per position: its patch, channel by channel."""
        images = block.astype(self._weights.dtype).reshape(-1, *self.image)
        windows = sliding_window_view(images, (self.size, self.size), axis=(2, 3))
        every = windows[:, :, :: self.stride, :: self.stride]
        return every.transpose(0, 2, 3, 1, 4, 5).reshape(-1, len(self._weights))

    def _pooled(self, responses: NDArray[Any]) -> NDArray[Any]:
        """Return images x filters x (sign and cell) from one row of responses per position."""
        shape = (-1, self._grid.height, self._grid.width, responses.shape[1])
        whole: NDArray[Any] = responses.astype(self._sum_type).reshape(shape)
        upwards, downwards = np.maximum(whole - self._cut, 0), np.maximum(-whole - self._cut, 0)
        sums = np.concatenate([self._grid.sums(upwards), self._grid.sums(downwards)], axis=1)
        pooled: NDArray[Any] = np.minimum(sums >> self._bits, LARGEST)
        return pooled.transpose(0, 2, 1)

    @property
    def _bits(self) -> int:
        assert self.shift is not None
        return self.shift

    @property
    def _cut(self) -> int:
        return round(self.threshold * LENGTH)

    @cached_property
    def _grid(self) -> Grid:
        height, width = ((side - self.size) // self.stride + 1 for side in self.image[1:])
        return Grid(height, width, self.pool)

    @cached_property
    def _weights(self) -> NDArray[Any]:
        drawn = mixed_filters(self.seed, self.filters, self.image[0], self.size, self.gain)
        return np.ascontiguousarray(drawn.reshape(self.filters, -1).T, dtype=short_float())

    @cached_property
    def _reach(self) -> NDArray[np.int64]:
        """The largest positive and negative response of each filter; no partial sum is larger."""
        whole = self._weights.astype(np.int64)
        sides = [np.maximum(whole, 0).sum(axis=0), np.maximum(-whole, 0).sum(axis=0)]
        return WHITE * np.stack(sides, axis=1)

    @property
    def _sum_type(self) -> type[np.int32 | np.int64]:
        largest = self._reach.max() * self._grid.sizes.max()
        return np.int32 if largest < 2**31 else np.int64

    @property
    def _bytes_per_image(self) -> int:
        at_once = min(self.filters, FILTERS_AT_ONCE)
        return self._grid.height * self._grid.width * (4 * len(self._weights) + 20 * at_once)


@dataclass(frozen=True)
class Grid:
    """`cells` x `cells` cells over `height` x `width` positions, of nearly equal size.

    >>> Grid(height=3, width=4, cells=2).sizes.tolist()
    [2, 2, 4, 4]
    """

    height: int
    width: int
    cells: int

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The number of positions in each cell, row by row."""
        inside = [
            (rows.stop - rows.start) * (columns.stop - columns.start)
            for rows, columns in self._cells()
        ]
        return np.array(inside, dtype=np.int64)

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return images x cells x filters from images x height x width x filters.

        The sums have the type of the values, which must hold them.
        """
        sums = [
            values[:, rows, columns].sum(axis=(1, 2), dtype=values.dtype)
            for rows, columns in self._cells()
        ]
        return np.stack(sums, axis=1)

    def _cells(self) -> list[tuple[slice, slice]]:
        across = self._parts(self.width)
        return [(rows, columns) for rows in self._parts(self.height) for columns in across]

    def _parts(self, length: int) -> list[slice]:
        edges = [part * length // self.cells for part in range(self.cells + 1)]
        return [slice(start, stop) for start, stop in pairwise(edges)]


def mixed_filters(
    seed: int, count: int, channels: int, size: int, gain: float
) -> NDArray[np.int64]:
    """Return `count` filters of `channels` x `size` x `size` integers in −127 .. 127.

    The norm of a filter is 256, or less where a value would exceed 127. The weight of a cosine
    patch is proportional to its frequency to the power of `gain`: photographs have little energy at
    high frequencies, and a gain of 1/2 compensates half of that. A gain of 0 gives white Gaussian
    filters.

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

    >>> cosine_basis(2).tolist()
    [[45, 45], [45, -45]]
    """
    frequency, position = np.mgrid[:size, :size]
    cosines = np.cos(np.pi * frequency * (2 * position + 1) / (2 * size))
    cosines[0] *= np.sqrt(0.5)
    return steady_round(64 * cosines)


def frequency_gain(size: int, gain: float) -> NDArray[np.int64]:
    """Return frequency^gain in 16ths for each pair of vertical and horizontal frequencies.

    >>> frequency_gain(2, gain=0.5).tolist()
    [[0, 16], [16, 19]]
    """
    vertical, horizontal = np.mgrid[:size, :size]
    squared = (vertical**2 + horizontal**2).astype(np.float64)
    return steady_round(16 * squared ** (gain / 2))


def steady_round(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round values whose last bits can differ between machines, such as cosines and powers.

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
