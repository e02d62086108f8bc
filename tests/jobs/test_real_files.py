"""Real files, taken for a user's own: `job init`, then a fleet that equals central training."""

import gzip
import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.jobs import Document
from dealfl.simulate import read_fleet, run_fleet
from tests.jobs.foreign_files import simulated

DATA = Path(os.environ.get("DEALFL_DATA", ""))

pytestmark = pytest.mark.usefixtures("movielens_here")


@pytest.fixture
def movielens_here(require_data: Callable[[str], None]) -> None:
    """Skip the tests of this file without data; MovieLens stands for all of it."""
    require_data("movielens")


FILES = [
    ("mushrooms/mushrooms.gz", [], "tikhonov_classifier", 0.95),
    ("mushrooms/mushrooms.gz", ["--learner", "naive_bayes"], "naive_bayes", 0.85),
    ("housing/housing_scale.gz", [], "tikhonov", 0.3),
    ("housing/boston_house_prices.csv.gz", ["--skip-lines", "1", "--yes"], "tikhonov", 0.3),
    ("cadata/cal_housing.data.gz", ["--target", "c9"], "tikhonov", 0.4),
    ("movielens/u.data.gz", ["--format", "ratings"], "personalized_pagerank", 0.02),
    ("retailrocket/sample_events.csv.gz", [], "personalized_pagerank", 0.0),
]


@pytest.mark.parametrize(("name", "words", "learner", "least"), FILES)
def test_a_real_file_becomes_a_job_whose_digest_is_that_of_central_training(
    tmp_path: Path, name: str, words: list[str], learner: str, least: float
) -> None:
    job = tmp_path / "job.toml"
    assert main(["job", "init", str(DATA / name), "--out", str(job), *words]) == 0
    assert tomllib.loads(job.read_text())["job"]["learner"] == learner
    outcome = simulated(job, rounds=2)
    assert outcome.exact
    assert outcome.quality is not None
    assert outcome.quality >= least


def test_an_own_file_and_the_catalogued_one_give_the_same_digest(tmp_path: Path) -> None:
    """Same bounds, classes, settings and rows: it does not matter which way they came."""
    (tmp_path / "own").write_bytes(gzip.decompress((DATA / "mushrooms/mushrooms.gz").read_bytes()))
    job = '[job]\nrounds = 1\nscheme = "incremental"\n{}\n[[devices]]\ncount = 3\n'
    own = '[source]\nfile = "own"\nformat = "libsvm"\nn_features = 112\nlow = 0\nhigh = 1\n'
    own += "classes = [1, 2]\n[learner]\nfraction_bits = 8\n"  # as the catalog has it
    digests = [
        run_fleet(read_fleet(Document.parse(job.format(text), "job.toml", tmp_path))).digest
        for text in (own, 'dataset = "mushrooms"')
    ]
    assert digests[0] == digests[1]
