"""Real data as it is loaded: shapes, counts that are published, and bounds that hold."""

import hashlib
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from dealfl.data import CATALOG, Dataset, Directories, Examples, load, yearpredictionmsd_like
from dealfl.errors import BadInput
from dealfl.features import feature_map
from dealfl.learners import learners_for, settings_for

LoadReal = Callable[[str], Examples]
TABLES = [name for name, dataset in CATALOG.items() if dataset.domain is not None]


def parts(examples: Examples) -> list[Examples]:
    return [examples] if examples.test is None else [examples, examples.test]


@cache
def _made(name: str) -> Examples:
    return load(name)


@pytest.fixture
def loaded(request: pytest.FixtureRequest) -> Callable[[str], Examples]:
    def one(name: str) -> Examples:
        if CATALOG[name].files:
            load_real: LoadReal = request.getfixturevalue("load_real")
            return load_real(name)
        return _made(name)

    return one


def features_for(dataset: Dataset, learner: str, examples: Examples) -> np.ndarray:
    table = dataset.feature_map(learner)
    rows = examples.features
    assert isinstance(rows, np.ndarray)
    if table is None:
        return rows
    if table["map"] == "patches":
        rows = rows[:200]  # the map itself guards its output; all images would take a minute
    return np.asarray(feature_map(table, rows.shape[1]).transform(rows))


@pytest.mark.parametrize("name", TABLES)
def test_no_row_is_outside_the_declared_limits(name: str, loaded: LoadReal) -> None:
    domain = CATALOG[name].domain
    assert domain is not None
    for part in parts(loaded(name)):
        rows = part.features
        assert isinstance(rows, np.ndarray)
        assert rows.shape[1] == domain.n_features
        assert (rows.min(axis=0) >= np.array(domain.low)).all()
        assert (rows.max(axis=0) <= np.array(domain.high)).all()


@pytest.mark.parametrize("name", TABLES)
def test_every_learner_s_bound_holds_on_every_row(name: str, loaded: LoadReal) -> None:
    dataset = CATALOG[name]
    examples = loaded(name)
    for learner in learners_for(dataset.task):
        settings = settings_for(learner, dataset)
        rows = features_for(dataset, learner, examples)
        assert rows.shape[1] == settings["n_features"]
        offset = np.asarray(settings.get("offset", 0.0))
        lowest, highest = rows.min(axis=0) - offset, rows.max(axis=0) - offset
        assert (highest <= settings["feature_bound"]).all()
        least = 0.0 if learner == "naive_bayes" else -np.asarray(settings["feature_bound"])
        assert (lowest >= least).all()


@pytest.mark.parametrize("name", TABLES)
def test_every_target_is_a_class_or_within_its_bound(name: str, loaded: LoadReal) -> None:
    dataset = CATALOG[name]
    for part in parts(loaded(name)):
        assert part.targets is not None
        assert len(part.targets) == len(part)
        if dataset.classes:
            assert set(np.unique(part.targets).tolist()) == set(dataset.classes)
        else:
            assert np.abs(part.targets).max() <= dataset.target_bound


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("mushrooms", (8_124, 112), np.float64),
        ("phishing", (11_055, 68), np.float64),
        ("covtype", (581_012, 54), np.int16),
        ("housing", (506, 13), np.float64),
        ("housing-raw", (506, 13), np.float64),
        ("cadata", (20_640, 8), np.float64),
        ("cifar10", (20_000, 3_072), np.uint8),
        ("digits", (1_797, 64), np.uint8),
        ("yearpredictionmsd-like", (463_715, 90), np.float32),
        ("movielens", (942, 1_682), np.int32),
        ("jester", (24_913, 100), np.int32),
        ("retailrocket", (5_000, 6_610), np.int32),
    ],
)
def test_shapes_are_the_published_ones(
    name: str, shape: tuple[int, int], dtype: type, loaded: LoadReal
) -> None:
    features = loaded(name).features
    assert features.shape == shape
    assert features.dtype == dtype


def test_counts_are_the_published_ones(load_real: LoadReal) -> None:
    covtype, movielens, cifar = map(load_real, ("covtype", "movielens", "cifar10"))
    assert covtype.targets is not None
    counts = np.bincount(covtype.targets)[1:].tolist()
    assert counts == [211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510]
    assert movielens.histories.nnz == 34_174 + 21_201  # ratings of 4 and of 5
    assert cifar.test is not None
    assert cifar.test.targets is not None
    assert np.bincount(cifar.test.targets).tolist() == [1_000] * 10


def test_both_housings_are_the_same_houses(load_real: LoadReal) -> None:
    scaled, raw = load_real("housing"), load_real("housing-raw")
    assert scaled.targets is not None
    assert raw.targets is not None
    assert scaled.targets.tolist() == raw.targets.tolist()
    assert (
        np.corrcoef(np.asarray(scaled.features)[:, 5], np.asarray(raw.features)[:, 5])[0, 1] > 0.999
    )


@pytest.mark.parametrize("name", ["movielens", "jester", "retailrocket"])
def test_a_history_is_a_set_of_items_of_one_owner(name: str, load_real: LoadReal) -> None:
    examples = load_real(name)
    histories = examples.histories
    assert (histories.data == 1).all()
    assert histories.has_canonical_format
    assert (np.diff(histories.indptr) > 0).all()
    assert examples.owners is not None
    assert len(np.unique(examples.owners)) == len(examples)
    assert histories.shape[1] == settings_for("personalized_pagerank", CATALOG[name])["n_items"]
    assert examples.times is None or len(examples.times) == histories.nnz


def test_rows_keeps_the_first_examples_and_the_whole_test_part(real: Directories) -> None:
    whole = load("movielens", directories=real)
    few = load("movielens", directories=real, rows=7)
    assert (few.histories.toarray() == whole.histories[:7].toarray()).all()
    assert few.owners is not None
    assert few.times is not None
    assert len(few.owners) == 7
    assert len(few.times) == few.histories.nnz
    assert len(load("housing", directories=real, rows=3)) == 3


@pytest.mark.parametrize("rows", [0, -1])
def test_fewer_rows_than_one_are_refused(rows: int) -> None:
    with pytest.raises(BadInput, match=f"rows is {rows}; it must be ≥ 1"):
        load("digits", rows=rows)
    with pytest.raises(BadInput, match=f"rows is {rows};"):
        yearpredictionmsd_like(rows)


def test_a_table_has_no_histories() -> None:
    with pytest.raises(BadInput, match="digits has no histories"):
        _ = load("digits", rows=1).histories


def test_generated_rows_depend_on_the_seed_alone() -> None:
    few, many, other = (
        yearpredictionmsd_like(5_000), yearpredictionmsd_like(9_000), yearpredictionmsd_like(9, 1)
    )  # fmt: skip
    rows = np.asarray(few.features)
    assert np.array_equal(rows, np.asarray(many.features)[:5_000])
    assert np.array_equal(few.targets, many.targets[:5_000])
    assert not np.array_equal(rows[:9], np.asarray(other.features))


def test_generated_rows_stay_the_same_in_every_version() -> None:
    table = yearpredictionmsd_like(5_000)
    features, years = np.asarray(table.features, "<f4"), table.targets.astype("<i2")
    assert hashlib.sha256(features.tobytes()).hexdigest() == (
        "37cdf1ca6b9024c826d28e9273764b16fef4edfa938ed76e2f5dea42c3712767"
    )
    assert hashlib.sha256(years.tobytes()).hexdigest() == (
        "f934ccf9c75459d9544fa8505d85ea2a4efc7d2800f0f2be09a36de9d7f1a387"
    )


def test_generated_years_can_be_learned_but_not_perfectly() -> None:
    table = yearpredictionmsd_like(4_000)
    design = np.column_stack([np.ones(4_000), np.asarray(table.features, dtype=float)])
    weights = np.linalg.lstsq(design[:3_000], table.targets[:3_000], rcond=None)[0]
    residual = table.targets[3_000:] - design[3_000:] @ weights
    explained = 1 - residual.var() / table.targets[3_000:].var()
    assert 0.05 < explained < 0.6
