"""Datasets for classification."""

from dataclasses import replace

import numpy as np

from dealfl.datasets.dataset import DataFile, Dataset, Task
from dealfl.datasets.domain import Domain
from dealfl.datasets.readers import Cifar, Columns, Libsvm, Table, TargetColumn
from dealfl.errors import DatasetMissing

__all__ = ["CIFAR10", "CIFAR10_FULL", "COVTYPE", "DIGITS", "MUSHROOMS", "PHISHING"]

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
_UCI = "https://archive.ics.uci.edu"
_UCI_LICENCE = "CC BY 4.0 (UCI Machine Learning Repository)"
_TORONTO = "https://www.cs.toronto.edu/~kriz/cifar"

MUSHROOMS = Dataset(
    name="mushrooms",
    task=Task.CLASSIFICATION,
    description="Mushrooms, poisonous (1) or edible (2), by 112 yes-or-no features",
    rows=8_124,
    columns=112,
    licence=_UCI_LICENCE,
    address=f"{_LIBSVM}/binary.html#mushrooms",
    read=Libsvm(n_features=112, labels=np.int64),
    files=(
        DataFile(
            path="mushrooms/mushrooms.gz",
            rows=8_124,
            sha256="c6170f9d3de835051acced088f85c13c96d23038d950b31684d793d5c7be21bd",
            content_sha256="f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538",
            url=f"{_LIBSVM}/binary/mushrooms",
        ),
    ),
    domain=Domain.alike(112, 0, 1),
    classes=(1, 2),
    tuning={"tikhonov_classifier": {"fraction_bits": 8}},
)

PHISHING = Dataset(
    name="phishing",
    task=Task.CLASSIFICATION,
    description="Web sites, phishing (1) or not (0); 30 of 68 features are 1/√30, the others 0",
    rows=11_055,
    columns=68,
    licence=_UCI_LICENCE,
    address=f"{_LIBSVM}/binary.html#phishing",
    read=Libsvm(n_features=68, labels=np.int64),
    files=(
        DataFile(
            path="phishing/phishing.gz",
            rows=11_055,
            sha256="ef3c8253cb6ac33b2849c2c4cee00c4199afe31ecb373c198bbc7e203829b082",
            content_sha256="0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a",
            url=f"{_LIBSVM}/binary/phishing",
        ),
    ),
    domain=Domain.alike(68, 0, 0.1875),  # 3/16, just above 1/√30 = 0.18257
    classes=(0, 1),
    tuning={"tikhonov_classifier": {"fraction_bits": 16}},
)

_MEASUREMENTS = Domain.of(
    (1800, 4000),  # elevation, m: from the valley of the Cache la Poudre to above any peak there
    (0, 360),  # aspect, degrees
    (0, 90),  # slope, degrees
    (0, 2048),  # horizontal distance to water, m
    (-256, 768),  # vertical distance to water, m: above it or below it
    (0, 8192),  # horizontal distance to roadways, m
    (0, 255),  # hillshade at 9 am
    (0, 255),  # hillshade at noon
    (0, 255),  # hillshade at 3 pm
    (0, 8192),  # horizontal distance to fire points, m
).around(2959, 156, 14, 269, 46, 2350, 212, 223, 143, 1980)  # the means that covtype.info states

COVTYPE = Dataset(
    name="covtype",
    task=Task.CLASSIFICATION,
    description="Forest cover, one of 7 types, by 10 measurements and 44 yes-or-no features",
    rows=581_012,
    columns=55,
    licence=f"{_UCI_LICENCE}; copyright Jock A. Blackard and Colorado State University",
    address=f"{_UCI}/dataset/31/covertype",
    read=TargetColumn(Columns(width=55, dtype=np.int16)),
    files=(
        DataFile(
            path="covtype/covtype.data.xz",
            rows=581_012,
            sha256="bbaed4fe81a7ac1b4ce6d3df1bcf79f1e11fefcc2336dbcdecf2ca69fe7cf26d",
            content_sha256="0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
            url=f"{_UCI}/ml/machine-learning-databases/covtype/covtype.data.gz",
        ),
    ),
    domain=_MEASUREMENTS + Domain.alike(44, 0, 1),
    classes=(1, 2, 3, 4, 5, 6, 7),
    feature_maps={
        "naive_bayes": {
            "map": "bins",
            "columns": tuple(range(_MEASUREMENTS.n_features)),
            "low": _MEASUREMENTS.low,
            "high": _MEASUREMENTS.high,
            "bins": 16,
            "bound": 1.0,
        }
    },
    tuning={"tikhonov_classifier": {"fraction_bits": 13}},  # 2^13: whole metres stay whole
)


def load_digits(rows: int) -> Table:
    """Return the first of scikit-learn's 1,797 handwritten digits, 8×8 pixels from 0 to 16.

    >>> load_digits(rows=3).targets.tolist()
    [0, 1, 2]
    """
    try:
        from sklearn import datasets  # type: ignore[import-untyped]
    except ImportError as error:
        raise DatasetMissing(
            'dataset digits comes with scikit-learn; run `pip install "dealfl[sklearn]"`'
        ) from error
    pixels, labels = datasets.load_digits(return_X_y=True)
    return Table(pixels[:rows].astype(np.uint8), labels[:rows].astype(np.int64))


DIGITS = Dataset(
    name="digits",
    task=Task.CLASSIFICATION,
    description="Handwritten digits of 8×8 pixels from 0 to 16, bundled with scikit-learn",
    rows=1_797,
    columns=64,
    licence=_UCI_LICENCE,
    address=f"{_UCI}/dataset/80/optical+recognition+of+handwritten+digits",
    make=load_digits,
    origin="bundled with scikit-learn",
    domain=Domain.alike(64, 0, 16),
    classes=tuple(range(10)),
    feature_maps={
        "tikhonov_classifier": {
            "map": "relu",
            "width": 256,
            "seed": 0,
            "low": 0.0,
            "high": 16.0,
            "steps": 16,
            "connections": 12,
            "bias": 8,
            "clip": 255,
        }
    },
    tuning={"tikhonov_classifier": {"fraction_bits": 8, "penalty": 0.1}},
)


def _batch(name: str, packed: str | None, content: str | None, md5: str) -> DataFile:
    return DataFile(
        path=f"cifar10/{name}.bin.xz",
        rows=10_000,
        sha256=packed,
        content_sha256=content,
        content_md5=md5,
        url=f"{_TORONTO}-10-binary.tar.gz",
        member=f"cifar-10-batches-bin/{name}.bin",
    )


_BATCH_1 = _batch(
    "data_batch_1",
    "7854ef2eb3bf1c9f426c079ccd35bea5dda80aca65679f9af02698fb449811b1",
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "5dd7e06a14cb22eb9f671a540d1b7c25",
)
_BATCH_2 = _batch(
    "data_batch_2",
    "a73ce792f7742f37db57760dfc84e1e513e822903c06e5e8c6b5a347f4dd95d6",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "5ea93a67294ea407fff1d09f752e9692",
)
_BATCHES_3_TO_5 = (
    _batch("data_batch_3", None, None, "942cd6a4bcdd0dd3c604fbe906cb4421"),
    _batch("data_batch_4", None, None, "ae636b3ba5c66a11e91e8cb52e771fcb"),
    _batch("data_batch_5", None, None, "53f37980c15c3d472c316c40844f3f0d"),
)
_TEST_BATCH = _batch(
    "test_batch",
    "803d23ff572f24ae92c98fe8df072db70fb3a8137cdfdf6a36b145db2b787140",
    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    "803d5f7f4d78ea53de84dbe85f74fb6d",
)

CIFAR10 = Dataset(
    name="cifar10",
    task=Task.CLASSIFICATION,
    description=(
        "Half of CIFAR-10: 20,000 of the 50,000 training images of 32×32 pixels, and all 10,000 "
        "test images; cifar10-full has all images"
    ),
    rows=30_000,
    columns=3_073,
    licence="no explicit licence; cite Krizhevsky 2009",
    address=f"{_TORONTO}.html",
    read=Cifar(),
    files=(_BATCH_1, _BATCH_2, _TEST_BATCH),
    complete=False,
    domain=Domain.alike(3 * 32 * 32, 0, 255),
    classes=tuple(range(10)),
    feature_maps={
        "tikhonov_classifier": {
            "map": "patches",
            "image": (3, 32, 32),
            "filters": 64,
            "seed": 0,
            "size": 6,
            "stride": 1,
            "threshold": 4.0,
            "gain": 0.5,
            "pool": 2,
            "shift": 7,
        }
    },
    tuning={"tikhonov_classifier": {"fraction_bits": 16, "penalty": 1e7}},
)
CIFAR10_FULL = replace(
    CIFAR10,
    name="cifar10-full",
    description="CIFAR-10: 50,000 training and 10,000 test images of 32×32 pixels in 10 classes",
    rows=60_000,
    files=(_BATCH_1, _BATCH_2, *_BATCHES_3_TO_5, _TEST_BATCH),
    complete=True,
)
