"""The catalog against MANIFEST.json, against feature maps, and against its own promises."""

import json
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

import dealfl.data
from dealfl.data import CATALOG, Dataset, Directories, Domain, Task, find_dataset, load
from dealfl.errors import BadInput, UnknownName
from dealfl.features import feature_map
from dealfl.learners import learners_for, settings_for

PAPER = (
    "movielens", "jester", "mushrooms", "phishing", "covtype", "housing", "cadata",
    "yearpredictionmsd", "cifar10",
)  # fmt: skip
CLASSIFIERS = ("tikhonov_classifier", "naive_bayes", "neighbors")
LEARNERS = (*CLASSIFIERS, "tikhonov", "personalized_pagerank")


def test_the_public_names_are_these() -> None:
    assert sorted(dealfl.data.__all__) == dealfl.data.__all__
    assert set(dealfl.data.__all__) == {
        "CATALOG", "Content", "DataFile", "Dataset", "Directories", "Domain", "Examples",
        "State", "Table", "Task", "check", "fetch", "find_dataset", "load", "split_by_owner",
        "split_by_label", "split_uniformly", "yearpredictionmsd_like",
    }  # fmt: skip


def test_the_nine_of_the_paper_and_the_extra_ones_are_catalogued() -> None:
    assert tuple(CATALOG)[:9] == PAPER
    assert {"retailrocket", "digits", "yearpredictionmsd-like"} <= set(CATALOG)


def test_nothing_catalogued_can_be_changed() -> None:
    entry = CATALOG["digits"]
    with pytest.raises(TypeError):
        CATALOG["digits"] = entry  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        entry.rows = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        entry.feature_maps["tikhonov_classifier"]["width"] = 3  # type: ignore[index]
    table = entry.feature_map("tikhonov_classifier")
    assert table is not None
    table["width"] = 3
    settings_for("tikhonov_classifier", entry)["penalty"] = 3
    assert settings_for("tikhonov_classifier", entry)["penalty"] == 0.1
    assert settings_for("tikhonov_classifier", entry)["n_features"] == 256


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="no dataset called 'mnist'; known: cadata, cifar10"):
        load("mnist")
    with pytest.raises(UnknownName):
        find_dataset("")


def test_importing_the_catalog_is_cheap() -> None:
    code = "import sys, dealfl.data; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"scipy", "pooch", "tqdm", "sklearn", "requests", "numba", "dealfl.learners"}
    assert heavy.isdisjoint(run.stdout.split())


def manifest(real: Directories) -> list[dict[str, Any]]:
    assert real.data is not None
    path = real.data / "MANIFEST.json"
    if not path.is_file():
        pytest.skip("DEALFL_DATA has no MANIFEST.json")
    entries: list[dict[str, Any]] = json.loads(path.read_text())
    return entries


def test_the_catalog_agrees_with_the_manifest(real: Directories) -> None:
    files = {file.path: (dataset, file) for dataset in CATALOG.values() for file in dataset.files}
    for entry in manifest(real):
        dataset, file = files[entry["file"]]
        assert entry["name"].removesuffix("100k") == dataset.name.partition("-")[0]
        assert file.sha256 == entry["sha256"]
        assert file.content_sha256 == entry.get("sha256_uncompressed", file.content_sha256)
        assert file.rows == entry["rows"]
        assert dataset.columns == entry["columns"]


def test_what_is_incomplete_in_the_manifest_is_a_subset_in_the_catalog(real: Directories) -> None:
    subsets = {entry["name"] for entry in manifest(real) if not entry["complete"]}
    assert {d.name for d in CATALOG.values() if not d.complete} == subsets
    for name in subsets:
        assert "of" in CATALOG[name].description


@pytest.mark.parametrize("dataset", CATALOG.values(), ids=list(CATALOG))
class TestEveryEntry:
    def test_says_what_it_is_where_it_is_from_and_what_is_allowed(self, dataset: Dataset) -> None:
        assert dataset.description
        assert dataset.licence
        assert dataset.address.startswith("https://") or dataset.origin == "generated"
        assert (dataset.read is None) == (not dataset.files) == bool(dataset.origin)

    def test_adds_up_to_the_rows_of_its_files(self, dataset: Dataset) -> None:
        assert dataset.rows == (sum(file.rows for file in dataset.files) or dataset.rows)

    def test_has_a_public_address_or_says_how_to_get_it(self, dataset: Dataset) -> None:
        for file in dataset.files:
            assert file.url or dataset.how_to_get
            assert not file.url or file.url.startswith("https://")

    def test_without_a_checksum_says_so(self, dataset: Dataset) -> None:
        unknown = [file for file in dataset.files if not file.has_checksum]
        assert bool(unknown) == ("o checksum is known" in dataset.description)

    def test_fits_the_learners_of_its_task_and_no_other(self, dataset: Dataset) -> None:
        expected = {
            Task.REGRESSION: {"tikhonov"},
            Task.CLASSIFICATION: set(CLASSIFIERS),
            Task.RECOMMENDATION: {"personalized_pagerank"},
        }[dataset.task]
        assert set(learners_for(dataset.task)) == expected
        for learner in LEARNERS:
            if learner in expected:
                assert settings_for(learner, dataset)
                continue
            with pytest.raises(UnknownName, match=f"no learner for {dataset.name}"):
                settings_for(learner, dataset)

    def test_declares_feature_maps_that_can_be_made(self, dataset: Dataset) -> None:
        for learner in dataset.feature_maps:
            table = dataset.feature_map(learner)
            assert table is not None
            assert dataset.domain is not None
            made = feature_map(table, dataset.domain.n_features)
            settings = settings_for(learner, dataset)
            assert settings["n_features"] == made.n_features
            bound = np.broadcast_to(settings["feature_bound"], made.n_features)
            assert (bound == made.feature_bound).all()
            # nothing is left to a default that a later version may change
            assert made.settings() == table
            assert json.loads(json.dumps(table)) == table


def test_a_generated_dataset_never_passes_for_the_real_one() -> None:
    entry = CATALOG["yearpredictionmsd-like"]
    assert "NOT the real data" in entry.description
    assert load("yearpredictionmsd-like", rows=2).name == "yearpredictionmsd-like"


def test_settings_follow_from_the_limits_of_a_domain() -> None:
    covtype = CATALOG["covtype"]
    neighbors = settings_for("neighbors", covtype)
    assert neighbors["offset"][:2] == (2959.0, 156.0)
    assert neighbors["feature_bound"][:2] == (1159.0, 204.0)
    assert settings_for("tikhonov_classifier", covtype)["feature_bound"][4] == 768.0
    assert settings_for("naive_bayes", covtype) == {
        "n_features": 204, "classes": (1, 2, 3, 4, 5, 6, 7), "feature_bound": 1.0, "offset": 0.0,
    }  # fmt: skip
    assert settings_for("naive_bayes", CATALOG["digits"]) == {
        "n_features": 64, "classes": tuple(range(10)), "feature_bound": 16.0, "offset": 0.0,
    }  # fmt: skip
    assert settings_for("tikhonov_classifier", CATALOG["digits"]) == {
        "n_features": 256, "classes": tuple(range(10)), "feature_bound": 104.0,
        "fraction_bits": 8, "penalty": 0.1,
    }  # fmt: skip
    assert settings_for("personalized_pagerank", CATALOG["movielens"]) == {"n_items": 1682}


def test_without_typical_values_the_centre_is_half_way() -> None:
    domain = Domain.of((0, 10), (0, 4))
    assert (domain.centre, domain.radius) == ((5.0, 2.0), (5.0, 2.0))
    domain = replace(domain, typical=(2.0, 2.0))
    assert (domain.centre, domain.radius) == (2.0, (8.0, 2.0))
    covtype = CATALOG["covtype"].domain_for("")
    assert covtype.typical[:2] == (2959.0, 156.0)
    assert set(covtype.typical[10:]) == {0.5}


def test_a_typical_value_outside_the_limits_is_refused() -> None:
    with pytest.raises(BadInput, match=r"feature 0: typical is 9.0, outside \[0.0, 8.0\]"):
        Domain((0.0,), (8.0,), typical=(9.0,))


def test_a_domain_without_room_is_refused() -> None:
    with pytest.raises(BadInput, match=r"feature 1: low is 2.0; it must be below high, 2.0"):
        Domain.of((0, 1), (2, 2))
