"""Seeded integer ReLU: random sums and differences of a few inputs, clipped at 0."""

from functools import cached_property
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.exact import seeded_bytes, short_float
from dealfl.features.base import (
    EXACT,
    EXACT_32,
    FeatureMap,
    High,
    Low,
    Matrix,
    Seed,
    blocks,
    refuse_outside,
    table_of,
)
from dealfl.settings import Count


class Relu(FeatureMap, frozen=True, dict=True, tag="relu"):
    """Features min(max(w·g + b, 0), clip) of inputs g on the grid 0 .. steps.

    An input x becomes round((x − low) · steps / (high − low)), half to even; an input outside the
    range is an error. Each w has `connections` entries of alternating +1 and −1, or one per input
    if there are fewer inputs. b is drawn from −bias .. bias. The defaults suit the dataset digits.
    A wider map starts with the features of a narrower one of the same seed.

    Examples
    --------
    >>> Relu(n_inputs=3, width=4, connections=2, bias=1).transform(np.array([[0, 7, 16]]))
    array([[ 0,  7,  0, 16]], dtype=uint8)
    """

    width: Annotated[int, Meta(ge=1, le=65_536, description="number of features")] = 256
    seed: Seed = 0
    low: Low = 0.0
    high: High = 16.0
    steps: Annotated[Count, Meta(description="steps of the grid that a range is rounded to")] = 16
    connections: Annotated[
        int, Meta(ge=1, le=65_536, description="number of inputs of a feature")
    ] = 16
    bias: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="largest constant added to a feature")
    ] = 16
    clip: Annotated[Count, Meta(description="largest value of a feature")] = 255

    def __post_init__(self) -> None:
        super().__post_init__()
        self._range_of(self.n_inputs)
        if self._reach >= EXACT:
            raise self._bad("steps", "connections · steps + bias must be below 2^53")

    @property
    def n_features(self) -> int:
        """The declared width."""
        return self.width

    @property
    def feature_bound(self) -> NDArray[np.float64]:
        """`clip`, or the sum of all positive weights and the bias if that is smaller."""
        return np.full(self.width, float(self._largest))

    @property
    def input_range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """From `low` to `high`."""
        return self._range_of(self.n_inputs)

    def transform(self, X: Matrix) -> NDArray[Any]:
        """Return the features in the smallest unsigned type that holds the largest one."""
        rows = table_of(X, self.n_inputs)
        low, high = self._range_of(self.n_inputs)
        out = np.empty((rows.shape[0], self.width), dtype=np.min_scalar_type(self._largest))
        for part, block in blocks(rows, bytes_per_row=16 * (self.n_inputs + self.width)):
            refuse_outside(block, part.start, low, high, "declare a wider low and high")
            grid = np.rint((block - low) * self.steps / (high - low))
            sums = grid.astype(self._weights.dtype) @ self._weights
            sums += self.biases
            out[part] = np.clip(sums, 0, self._largest, out=sums)
        return out

    @property
    def _connected(self) -> int:
        return min(self.connections, self.n_inputs)

    @property
    def _reach(self) -> int:
        """The largest partial sum of w·g + b, in any order of additions."""
        return self._connected * self.steps + self.bias

    @property
    def _largest(self) -> int:
        positive = -(-self._connected // 2)
        return min(self.clip, positive * self.steps + self.bias)

    @cached_property
    def _weights(self) -> NDArray[Any]:
        exact = short_float() if self._reach < EXACT_32 else np.float64
        signs = dealt_signs(self.seed, self.width, self.n_inputs, self._connected)
        return np.ascontiguousarray(signs.T, dtype=exact)

    @cached_property
    def biases(self) -> NDArray[Any]:
        """The constant that is added to each feature before it is clipped."""
        drawn = _seeded_uint32(self.seed, "relu/bias", (self.width,))
        return (drawn % (2 * self.bias + 1) - self.bias).astype(self._weights.dtype)


def dealt_signs(seed: int, width: int, n_inputs: int, connected: int) -> NDArray[np.int8]:
    """Return `width` rows with alternating +1 and −1 at `connected` distinct seeded columns.

    The columns are dealt like cards: no column is used again before all are used, except for a
    remainder that is too small for a feature. Balanced signs work better on digits than free ones.

    >>> dealt_signs(seed=0, width=2, n_inputs=4, connected=2).tolist()
    [[0, 0, 1, -1], [-1, 1, 0, 0]]
    """
    hands = n_inputs // connected
    keys = _seeded_uint32(seed, "relu/columns", (-(-width // hands), n_inputs))
    packs = np.argsort(keys, axis=1, kind="stable")[:, : hands * connected]
    columns = packs.reshape(-1, connected)[:width]
    turns = np.arange(connected) + (seeded_bytes(seed, "relu/signs", width) & 1)[:, None]
    signs = np.zeros((width, n_inputs), dtype=np.int8)
    np.put_along_axis(signs, columns, (1 - 2 * (turns % 2)).astype(np.int8), axis=1)
    return signs


def _seeded_uint32(seed: int, purpose: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    raw = seeded_bytes(seed, purpose, 4 * int(np.prod(shape)))
    return raw.view("<u4").astype(np.int64).reshape(shape)
