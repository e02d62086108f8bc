"""The catalog: datasets of the paper and a few more, as `catalog.toml` states them."""

import tomllib
from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.data.dataset import DataFile, Dataset, Domain, Task
from dealfl.data.readers import (
    Cifar,
    Columns,
    Content,
    Events,
    Libsvm,
    RatingMatrix,
    Ratings,
    Table,
    TargetColumn,
)
from dealfl.errors import BadInput, DatasetMissing, unknown_name
from dealfl.exact import seeded_sums
from dealfl.registry import Registry

_SONGS = "yearpredictionmsd-like"
_BLOCK_ROWS = 4096  # whole blocks are generated, so fewer rows are a prefix of more
_FACTORS = 6
_STEPS = 2048  # a factor plus a column's own part is always less, so bounds always hold


def find_dataset(name: str) -> Dataset:
    """Return an entry of the catalog.

    Examples
    --------
    >>> find_dataset("covtype").classes
    (1, 2, 3, 4, 5, 6, 7)
    """
    if name not in CATALOG:
        raise unknown_name("dataset", name, CATALOG)
    return CATALOG[name]


# -- generated rows -----------------------------------------------------------------------------


def load_digits(rows: int) -> Table:
    """Return the first of scikit-learn's 1,797 handwritten digits, 8×8 pixels from 0 to 16.

    >>> load_digits(rows=3).targets.tolist()
    [0, 1, 2]
    """
    package = find_spec("sklearn")  # importing it takes a second; its file is a table of integers
    if package is None or package.origin is None:
        raise DatasetMissing(
            'dataset digits comes with scikit-learn; run `pip install "dealfl[sklearn]"`'
        )
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if not file.exists():
        raise DatasetMissing(f"this version of scikit-learn has no {file}; install another one")
    table = np.loadtxt(file, delimiter=",", dtype=np.int64, max_rows=rows, ndmin=2)
    return Table(table[:, :-1].astype(np.uint8), table[:, -1])


def yearpredictionmsd_like(rows: int, seed: int = 0) -> Table:
    """Generate rows in the shape of YearPredictionMSD; they are not the real data.

    Columns share hidden factors. The year depends linearly on some columns, with noise.

    Examples
    --------
    >>> table = yearpredictionmsd_like(rows=3)
    >>> table.features.shape, table.targets.tolist()
    ((3, 90), [1995, 1994, 1988])
    """
    if rows < 1:
        raise BadInput(f"rows is {rows}; it must be ≥ 1")
    high = np.array(CATALOG[_SONGS].domain_for("").high)
    slopes = seeded_sums(seed, f"{_SONGS}/slopes", high.shape)
    slopes[np.arange(len(high)) % 3 != 0] = 0
    blocks = [_songs(seed, number, high, slopes) for number in range(-(-rows // _BLOCK_ROWS))]
    features = np.concatenate([features for features, _ in blocks])[:rows]
    years = np.concatenate([years for _, years in blocks])[:rows]
    return Table(features, years)


def _songs(
    seed: int, number: int, high: NDArray[np.float64], slopes: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    width = len(high)
    drawn = seeded_sums(seed, f"{_SONGS}/{number}", (_BLOCK_ROWS, width + _FACTORS + 1))
    own, factors, noise = drawn[:, :width], drawn[:, width:-1], drawn[:, -1]
    steps = 2 * own + factors[:, np.arange(width) % _FACTORS]
    years = 1998 + (steps @ slopes // 512 + 4 * noise) // 64
    features = (steps * (high / _STEPS)).astype(np.float32)  # powers of two: no rounding anywhere
    return features, np.clip(years, 1922, 2011).astype(np.int16)


# -- reading the catalog ------------------------------------------------------------------------


def _hundredths(content: Content) -> bytes:
    """Return the ratings of Jester in a form that does not change if a spreadsheet saves them."""
    table = Columns(width=101).read(content)
    return bytes(np.rint(table * 100).astype("<i2").tobytes())


_READERS: dict[str, Callable[..., Any]] = {
    "cifar": Cifar,
    "events": Events,
    "libsvm": Libsvm,
    "rating_matrix": RatingMatrix,
    "ratings": Ratings,
    "target_column": TargetColumn,
}
_MAKERS = {"digits": load_digits, _SONGS: yearpredictionmsd_like}
_CANONICAL = {"hundredths": _hundredths, None: None}


def _domain(table: dict[str, Any]) -> Domain | None:
    limits = table.pop("domain", [])
    limits += [[-(2**exponent), 2**exponent] for exponent in table.pop("domain_exponents", ())]
    pairs = [(low, high) for low, high, *count in limits for _ in range(*count or [1])]
    typical = table.pop("typical", ())
    if not pairs:
        return None
    domain = Domain.of(*pairs)
    middles = [(low + high) / 2 for low, high in pairs[len(typical) :]] if typical else []
    return Domain(domain.low, domain.high, tuple(map(float, [*typical, *middles])))


def _entry(name: str, table: dict[str, Any]) -> Dataset:
    reader = next((_READERS[kind](**keys) for kind, keys in table.pop("read", {}).items()), None)
    files = [
        DataFile(
            **file
            | {
                "canonical": _CANONICAL[file.get("canonical")],
                "published": tuple(file.get("published", ())),
            }
        )
        for file in table.pop("files", ())
    ]
    return Dataset(
        name=name,
        task=Task(table.pop("task")),
        read=reader,
        make=_MAKERS.get(table.pop("make", "")),
        files=tuple(files),
        domain=_domain(table),
        classes=tuple(table.pop("classes", ())),
        **table,
    )


def _read_catalog() -> dict[str, Dataset]:
    tables = tomllib.loads(Path(__file__).with_name("catalog.toml").read_text("utf-8"))
    whole = {
        name: tables.get(table.pop("like", None), {}) | table for name, table in tables.items()
    }
    return {name: _entry(name, deepcopy(table)) for name, table in whole.items()}


def _admit(name: str, plugin: Any) -> Dataset:  # noqa: ANN401
    if not isinstance(plugin, Dataset):
        raise BadInput(f"{plugin!r} is not a dealfl.data.Dataset")
    if plugin.name != name:
        raise BadInput(f"the dataset has the name {plugin.name!r}; both names must be the same")
    return plugin


CATALOG: Registry[Dataset] = Registry("dealfl.datasets", _read_catalog, _admit)
