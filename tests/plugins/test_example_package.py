"""The example package, installed for real: all five of it are used, in processes of their own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which the package was installed, without a network."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, folder / "source")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--no-compile"]
    target = ["--target", str(folder / "site"), str(folder / "source")]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *target], check=True)
    return folder / "site"


def run(installed: Path, *words: str) -> str:
    places = os.pathsep.join([str(installed), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": places, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_learner_keeps_the_contract(installed: Path) -> None:
    code = """
import numpy as np
from dealfl.exact import Entries, Statistics
from dealfl.learners import LEARNERS
from dealfl.learners.checks import Subject, check_learner

make = lambda: LEARNERS["nearest_mean"](2, [0, 1], 4.0)
draw = np.random.default_rng(0)
X, y = draw.uniform(-4, 4, (12, 2)), draw.integers(0, 2, 12)
schema = make().schema
few = {"counts": Entries.of({0: -1}), "sums": Entries.of({})}
check_learner(
    Subject(
        make, (X, y),
        refused=[lambda m: m.learn([[9.0, 0.0]], [0]), lambda m: m.learn([[0.0, 0.0]], [2])],
        impossible=[Statistics(schema, few)],
    ),
    interleavings=100,
)
"""
    run(installed, "-c", code)


def test_all_five_work_together_in_a_fleet(installed: Path, tmp_path: Path) -> None:
    fleet = str(EXAMPLE / "fleet.toml")
    told = run(installed, "-m", "dealfl", "simulate", fleet, "--json")
    (outcome,) = json.loads(told)["settings"][0]["outcomes"]
    assert outcome["exact"] is True
    assert outcome["quality"] > 0.95
    assert outcome["evicted"] > 0
    assert outcome["energy"]["compute_j"] > 0


def test_a_model_of_theirs_is_exported_and_used(installed: Path, tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from dealfl.cli import main
from dealfl.learners import load
from dealfl.settings import Document
from dealfl.simulate import read_fleet, run_fleet
from dealfl.runs import open_model

folder = Path({str(tmp_path)!r})
fleet = read_fleet(Document.read({str(EXAMPLE / "fleet.toml")!r}))
outcome = run_fleet(fleet, ledger=folder / "ledger.db")
assert main(["model", "export", str(folder), "--out", str(folder / "hills.deal")]) == 0
assert load(folder / "hills.deal").digest() == outcome.digest
(folder / "new.csv").write_text("1.5,1.5\\n-1.5,-1.5\\n")
assert main(["model", "predict", str(folder / "hills.deal"), str(folder / "new.csv")]) == 0
"""
    assert run(installed, "-c", code).splitlines()[-3:] == ["line,prediction", "1,1", "2,0"]


def test_commands_show_what_was_added(installed: Path) -> None:
    devices = json.loads(run(installed, "-m", "dealfl", "devices", "--json"))["devices"]
    assert devices[-1]["name"] == "brick"
    datasets = json.loads(run(installed, "-m", "dealfl", "datasets", "--json"))["datasets"]
    assert datasets[-1]["name"] == "two_hills"
    assert "hz" in run(installed, "-m", "dealfl", "devices", "show", "brick").lower()
    run(installed, "-m", "dealfl", "datasets", "check", "two_hills")


def test_the_doctests_of_the_package_hold(installed: Path) -> None:
    for module in ("nearest_mean", "in_turn", "at_most"):
        run(installed, "-m", "doctest", str(installed / "dealfl_example" / f"{module}.py"))


def test_without_the_package_its_names_are_unknown() -> None:
    words = [sys.executable, "-m", "dealfl", "simulate", str(EXAMPLE / "fleet.toml")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert "job.dataset is 'two_hills'; it takes one of" in done.stderr
