"""YearPredictionMSD's features, and a seeded stand-in of its shape for when it can not be had."""

import numpy as np
from numpy.typing import NDArray

from dealfl.datasets.domain import Domain
from dealfl.datasets.formats import Table
from dealfl.errors import BadInput
from dealfl.seeded import seeded_sums

__all__ = ["TIMBRE", "yearpredictionmsd_like"]

# Powers of two that leave at least a factor of two above the published extremes of the training
# rows: 12 timbre averages, then 78 timbre covariances.
# fmt: off
_EXPONENTS = (
     7, 10, 10, 10, 10,  8,  9,  8,  9,  7,  8,  8,
    11, 18, 17, 16, 16, 16, 15, 15, 15, 13, 14, 15, 13, 16, 15, 14, 13, 13, 13, 12, 13, 13, 12,
    13, 15, 15, 15, 15, 14, 14, 14, 12, 11, 12, 15, 14, 14, 13, 13, 13, 13, 13, 12, 14, 15, 15,
    14, 14, 12, 12, 11, 15, 14, 13, 13, 14, 14, 11, 14, 14, 15, 12, 12, 11, 15, 13, 15, 14, 11,
    14, 13, 13, 10, 13, 14, 10, 14, 11,
)
# fmt: on
TIMBRE = Domain.symmetric(tuple(float(2**exponent) for exponent in _EXPONENTS))

_BLOCK_ROWS = 4096  # a whole block is made at once, so fewer rows are a prefix of more
_FACTORS = 6
_STEPS = 2048  # every factor and its own part add up to less, so that bounds always hold


def yearpredictionmsd_like(rows: int, seed: int = 0) -> Table:
    """Return generated rows of YearPredictionMSD's shape; they are not the real data.

    Columns share hidden factors, and the year depends linearly on some columns and on noise.

    >>> table = yearpredictionmsd_like(rows=3)
    >>> table.features.shape, table.targets.tolist()
    ((3, 90), [1995, 1994, 1988])
    """
    if rows < 1:
        raise BadInput(f"rows={rows}: a generated dataset needs at least one row")
    blocks = [_block(seed, number) for number in range(-(-rows // _BLOCK_ROWS))]
    features = np.concatenate([features for features, _ in blocks])[:rows]
    years = np.concatenate([years for _, years in blocks])[:rows]
    return Table(features, years)


def _block(seed: int, number: int) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    width = TIMBRE.n_features
    shape = (_BLOCK_ROWS, width + _FACTORS + 1)
    drawn = seeded_sums(seed, f"yearpredictionmsd-like/{number}", shape)
    own, factors, noise = drawn[:, :width], drawn[:, width:-1], drawn[:, -1]
    steps = 2 * own + factors[:, np.arange(width) % _FACTORS]
    scale = np.array(TIMBRE.high) / _STEPS  # powers of two: no rounding anywhere
    years = 1998 + (steps @ _slopes(seed) // 512 + 4 * noise) // 64
    features = (steps * scale).astype(np.float32)
    return features, np.clip(years, 1922, 2011).astype(np.int16)


def _slopes(seed: int) -> NDArray[np.int64]:
    slopes = seeded_sums(seed, "yearpredictionmsd-like/slopes", (TIMBRE.n_features,))
    return np.where(np.arange(TIMBRE.n_features) % 3 == 0, slopes, 0)
