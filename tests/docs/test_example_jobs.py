"""The jobs in examples: what they say of themselves, and what short runs of them recorded."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dealfl.power import PHONES
from dealfl.settings import Document
from dealfl.simulate import read_fleet, run_fleet

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = sorted(EXAMPLES.glob("jobs/*.toml"))
RECORDED = json.loads((EXAMPLES.parent / "tests/before/results/short_runs.json").read_text("utf-8"))
# what a fleet of ten phones reaches after four rounds on 600 examples, with room below
LEAST = {
    "bayes-covtype": 0.5,
    "bayes-mushrooms": 0.85,
    "bayes-phishing": 0.8,
    "neighbors-mushrooms": 0.8,
    "neighbors-phishing": 0.7,
    "pagerank-jester": 0.03,
    "pagerank-movielens": 0.01,
    "tikhonov-cadata": 0.4,
    "tikhonov-housing": 0.5,
}


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_short_run_of_an_example_job_is_recorded_exact_and_useful(path: Path) -> None:
    """`tests/before` runs each of them again, and compares."""
    outcome = RECORDED[path.stem]["deal"]
    assert outcome["digest"] == outcome["central_digest"]
    assert outcome["quality"] > LEAST[path.stem]
    assert outcome["learned"] > 100


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_an_example_job_states_its_command_and_its_result(path: Path) -> None:
    head = path.read_text("utf-8").partition("[job]")[0]
    assert f"# Run it:    dealfl run examples/jobs/{path.name}\n" in head
    assert re.search(r"^# Result:    \w.* [01]\.\d+", head, re.MULTILINE)
    tables = Document.read(path).tables
    assert f"dealfl datasets fetch {tables['job']['dataset']}" in head
    assert [group["phone"] for group in tables["devices"]] == [
        "honor", "lenovo", "zte", "mi", "nexus",
    ]  # fmt: skip
    assert tables["job"]["name"] == path.stem


def test_the_phones_of_the_examples_are_all_that_the_paper_has() -> None:
    assert {"honor", "lenovo", "zte", "mi", "nexus"} <= set(PHONES.usable())


def test_every_learner_of_the_paper_has_an_example() -> None:
    learners = {Document.read(path).tables["job"]["learner"] for path in JOBS}
    assert learners == {"personalized_pagerank", "neighbors", "naive_bayes", "tikhonov"}


INDEXED = sorted(path for path in EXAMPLES.glob("*/*.toml") if path.name != "pyproject.toml")


@pytest.mark.parametrize("path", INDEXED, ids=lambda path: path.stem)
def test_every_example_is_in_the_index(path: Path) -> None:
    place = path.relative_to(EXAMPLES).as_posix()
    assert f"]({place})" in (EXAMPLES / "README.md").read_text("utf-8")


@pytest.mark.parametrize("path", [*JOBS, *EXAMPLES.glob("fleets/*.toml")], ids=lambda p: p.stem)
def test_every_example_is_understood(path: Path) -> None:
    assert read_fleet(Document.read(path)).workers >= 6


LARGE = sorted(EXAMPLES.glob("large/*.toml"))


@pytest.mark.parametrize("path", LARGE, ids=lambda path: path.stem)
def test_a_large_example_states_its_command_and_is_understood(path: Path) -> None:
    head = path.read_text("utf-8").partition("[job]")[0]
    assert f"# Run it:    dealfl run examples/large/{path.name}\n" in head
    fleet = read_fleet(Document.read(path))
    assert fleet.job.name == f"large-{path.stem}"
    assert fleet.workers == 5
    assert fleet.data.rows >= 15_000


def test_an_example_pages_its_model_and_is_exact(require_data: Callable[[str], None]) -> None:
    document = Document.read(EXAMPLES / "fleets" / "movielens.toml")
    require_data("movielens")
    short = {"job.rounds": 2, "job.evaluate_every": 2, "data.rows": 2000, "devices.1.count": 4}
    for key, value in short.items():
        document = document.replaced(key, value)
    outcome = run_fleet(read_fleet(document))
    assert outcome.exact
    assert outcome.energy.pages_in > 100


def test_an_example_learns_back_what_it_should_not_have_forgotten() -> None:
    document = Document.read(EXAMPLES / "fleets" / "recovery.toml")
    document = document.replaced("job.rounds", 8).replaced("job.evaluate_every", 8)
    recovering = run_fleet(read_fleet(document))
    assert recovering == run_fleet(read_fleet(document)), "the same for the same seed"
    forgetting = run_fleet(read_fleet(document.replaced("worker.validation_share", 0.0)))
    assert recovering.recovered > 0 == forgetting.recovered
    assert recovering.exact
    assert recovering.quality is not None
    assert forgetting.quality is not None
    assert recovering.quality > forgetting.quality + 0.01
