"""Datasets for regression; one is generated in the shape of YearPredictionMSD."""

import numpy as np
from numpy.typing import NDArray

from dealfl.datasets.dataset import DataFile, Dataset, Task
from dealfl.datasets.domain import Domain
from dealfl.datasets.readers import Columns, Libsvm, Table, TargetColumn
from dealfl.errors import BadInput
from dealfl.seeded import seeded_sums

__all__ = [
    "CADATA",
    "HOUSING",
    "HOUSING_RAW",
    "YEARPREDICTIONMSD",
    "YEARPREDICTIONMSD_LIKE",
    "yearpredictionmsd_like",
]

_UCI = "https://archive.ics.uci.edu"

HOUSING = Dataset(
    name="housing",
    task=Task.REGRESSION,
    description=(
        "Boston house values in 1,000 dollars, features scaled to -1..1; feature B encodes race: "
        "use only for comparison with the paper"
    ),
    rows=506,
    columns=13,
    licence="public (StatLib, UCI)",
    address="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/regression.html#housing",
    read=Libsvm(n_features=13),
    files=(
        DataFile(
            path="housing/housing_scale.gz",
            rows=506,
            sha256="03bd1241dad22effffa922d29bf96036aaf0a415a67bd01f9520c03a22649480",
            content_sha256="bbacd2f526a038499717d5dc4b8895e6baf1e2351895b9360a84bcb31e104476",
            url=(
                "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/regression/housing_scale"
            ),
        ),
    ),
    domain=Domain.alike(13, -1, 1),
    target_bound=64.0,
)

HOUSING_RAW = Dataset(
    name="housing-raw",
    task=Task.REGRESSION,
    description="Dataset housing in its original units",
    rows=506,
    columns=14,
    licence="public (StatLib); this file BSD-3-Clause (scikit-learn 1.1)",
    address="https://lib.stat.cmu.edu/datasets/boston",
    read=TargetColumn(Columns(width=14, skip_lines=2)),
    files=(
        DataFile(
            path="housing/boston_house_prices.csv.gz",
            rows=506,
            sha256="a0b18ddadebf2ff3898ebc40c7ce3696f31ce082a3e9193633d46b5d09d208ac",
            content_sha256="d98212636026544fc9b9c0f372e5f819872e6fa6fa757ab025efdda22180f2d6",
            url=(
                "https://raw.githubusercontent.com/scikit-learn/scikit-learn/1.1.3/"
                "sklearn/datasets/data/boston_house_prices.csv"
            ),
        ),
    ),
    domain=Domain.of(
        (0, 128),  # CRIM, crimes per person, in units of the source
        (0, 100),  # ZN, per cent
        (0, 32),  # INDUS, per cent of acres; a third of the land at most
        (0, 1),  # CHAS, on the river or not
        (0, 1),  # NOX, parts per 10 million
        (0, 16),  # RM, rooms
        (0, 100),  # AGE, per cent
        (0, 16),  # DIS, miles to work
        (0, 32),  # RAD, an index up to 24
        (0, 1024),  # TAX, dollars per 10,000
        (0, 32),  # PTRATIO, pupils per teacher
        (0, 400),  # B, at most 396.9 by its formula
        (0, 100),  # LSTAT, per cent
    ),
    target_bound=64.0,
)

CADATA = Dataset(
    name="cadata",
    task=Task.REGRESSION,
    description="House values in California's census blocks, 1990, in dollars, capped at 500,001",
    rows=20_640,
    columns=9,
    licence="public (Pace and Barry 1997, StatLib)",
    address="https://www.dcc.fc.up.pt/~ltorgo/Regression/cal_housing.html",
    read=TargetColumn(Columns(width=9)),
    files=(
        DataFile(
            path="cadata/cal_housing.data.gz",
            rows=20_640,
            sha256="cdbc6f084852c03a4a55e6752938bb7d64c54b89813cbb8a21b0d25d1ade3e3c",
            content_sha256="a2b44dcc7e1c9091b43c4f458b25cbd1f7e8068d08edd26bc4703108d3fa6214",
            url="https://www.dcc.fc.up.pt/~ltorgo/Regression/cal_housing.tgz",
            member="CaliforniaHousing/cal_housing.data",
        ),
    ),
    domain=Domain.of(
        (-128, -112),  # longitude
        (32, 44),  # latitude
        (0, 64),  # age in years, capped at 52
        (0, 65536),  # rooms
        (0, 8192),  # bedrooms
        (0, 65536),  # people
        (0, 8192),  # households
        (0, 16),  # income in 10,000 dollars, capped at 15.0001
    ),
    target_bound=float(2**19),
)

# -- songs: the real ones, and generated ones where those are not available -----------------------

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
_TIMBRE = Domain.symmetric(tuple(float(2**exponent) for exponent in _EXPONENTS))

_BLOCK_ROWS = 4096  # whole blocks are generated, so fewer rows are a prefix of more
_FACTORS = 6
_STEPS = 2048  # a factor plus a column's own part is always less, so bounds always hold

YEARPREDICTIONMSD = Dataset(
    name="yearpredictionmsd",
    task=Task.REGRESSION,
    description=(
        "The year of a song and 90 features of its timbre; 463,715 training and 51,630 test rows. "
        "No checksum is known, so rows are counted; bounds are at least twice the published "
        "extremes"
    ),
    rows=515_345,
    columns=91,
    licence="CC BY 4.0 (UCI Machine Learning Repository)",
    address=f"{_UCI}/dataset/203/yearpredictionmsd",
    read=TargetColumn(Columns(width=91), target=0, train_rows=463_715),
    files=(
        DataFile(
            path="yearpredictionmsd/YearPredictionMSD.txt.zip",
            rows=515_345,
            url=f"{_UCI}/ml/machine-learning-databases/00203/YearPredictionMSD.txt.zip",
            member="YearPredictionMSD.txt",
        ),
    ),
    domain=_TIMBRE,
    target_bound=2048.0,
)


def yearpredictionmsd_like(rows: int, seed: int = 0) -> Table:
    """Generate rows in the shape of YearPredictionMSD; they are not the real data.

    Columns share hidden factors. The year depends linearly on some columns, with noise.

    Parameters
    ----------
    rows : int
        Number of rows, ≥ 1.
    seed : int, default 0
        Seed of the rows.

    Returns
    -------
    Table
        90 features and the year of each row.

    Raises
    ------
    BadInput
        `rows` is below 1.

    Examples
    --------
    >>> table = yearpredictionmsd_like(rows=3)
    >>> table.features.shape, table.targets.tolist()
    ((3, 90), [1995, 1994, 1988])
    """
    if rows < 1:
        raise BadInput(f"rows is {rows}; it must be ≥ 1")
    blocks = [_block(seed, number) for number in range(-(-rows // _BLOCK_ROWS))]
    features = np.concatenate([features for features, _ in blocks])[:rows]
    years = np.concatenate([years for _, years in blocks])[:rows]
    return Table(features, years)


def _block(seed: int, number: int) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    width = _TIMBRE.n_features
    shape = (_BLOCK_ROWS, width + _FACTORS + 1)
    drawn = seeded_sums(seed, f"yearpredictionmsd-like/{number}", shape)
    own, factors, noise = drawn[:, :width], drawn[:, width:-1], drawn[:, -1]
    steps = 2 * own + factors[:, np.arange(width) % _FACTORS]
    scale = np.array(_TIMBRE.high) / _STEPS  # powers of two: no rounding anywhere
    years = 1998 + (steps @ _slopes(seed) // 512 + 4 * noise) // 64
    features = (steps * scale).astype(np.float32)
    return features, np.clip(years, 1922, 2011).astype(np.int16)


def _slopes(seed: int) -> NDArray[np.int64]:
    slopes = seeded_sums(seed, "yearpredictionmsd-like/slopes", (_TIMBRE.n_features,))
    return np.where(np.arange(_TIMBRE.n_features) % 3 == 0, slopes, 0)


YEARPREDICTIONMSD_LIKE = Dataset(
    name="yearpredictionmsd-like",
    task=Task.REGRESSION,
    description=(
        "Generated from a seed in the shape of YearPredictionMSD's training rows; NOT the real "
        "data: say so with any result"
    ),
    rows=463_715,
    columns=90,
    licence="none needed: generated",
    address="generated on this machine",
    make=yearpredictionmsd_like,
    origin="generated",
    domain=_TIMBRE,
    target_bound=2048.0,
)
