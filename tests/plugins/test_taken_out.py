"""A learner describes itself: one is taken out and put back, and nothing else changes."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from dealfl.learners import LEARNERS

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "dealfl"
# the front door offers what learners export
CHOOSING = (
    "sklearn/",
    "__init__.py",
)
FLEET = """
[job]
name = "taken out"
dataset = "digits"
learner = "naive_bayes"
rounds = 3

[[devices]]
count = 4
phone = "honor"
"""


# -- nobody else knows a learner ----------------------------------------------------------------


def _words(tree: ast.AST) -> Iterator[str]:
    """Yield the names and texts of code, without what it says about itself."""
    said = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield "" if id(node) in said else node.value


@cache
def _words_by_file() -> dict[str, frozenset[str]]:
    return {
        path.relative_to(SOURCES).as_posix(): frozenset(_words(ast.parse(path.read_text())))
        for path in SOURCES.rglob("*.py")
    }


def _mentions(name: str) -> set[str]:
    found = {place for place, words in _words_by_file().items() if name in words}
    return {place for place in found if not place.startswith(CHOOSING)}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_is_named_in_its_own_folder_and_where_it_is_registered(name: str) -> None:
    kind = LEARNERS[name]
    own = kind.__module__.removeprefix("dealfl.").replace(".", "/") + ".py"
    front = own.rpartition("/")[0] + "/__init__.py"
    assert _mentions(name) == {own}
    assert _mentions(kind.__name__) | {own, front} == {own, front, "learners/__init__.py"}


@pytest.mark.parametrize("name", ["predict_votes", "item_order", "vote_bits"])
def test_what_only_one_learner_has_is_probed_nowhere(name: str) -> None:
    assert all(place.startswith("learners/") for place in _mentions(name))


def test_no_code_asks_whether_a_learner_has_a_method() -> None:
    probe = re.compile(r"(getattr|hasattr)\((self\._)?(learner|model|kind)\b")
    for path in SOURCES.rglob("*.py"):
        assert not probe.search(path.read_text()), path


# -- taken out, and put back --------------------------------------------------------------------


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources without naive Bayes: no folder, no line of registration."""
    folder = tmp_path_factory.mktemp("without")
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCES, folder / "dealfl", ignore=skipped)
    shutil.rmtree(folder / "dealfl" / "learners" / "naive_bayes")
    front = folder / "dealfl" / "learners" / "__init__.py"
    lines = front.read_text().replace('"NaiveBayes", ', "").splitlines(keepends=True)
    front.write_text("".join(line for line in lines if "NaiveBayes" not in line))
    return folder


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a package that has the very same folder, and one line that registers it."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "their_learner").mkdir()
    for path in (SOURCES / "learners" / "naive_bayes").glob("*.py"):
        text = path.read_text().replace("dealfl.learners.naive_bayes", "their_learner")
        (folder / "their_learner" / path.name).write_text(text)
    about = folder / "outside-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    line = "naive_bayes = their_learner:NaiveBayes"
    (about / "entry_points.txt").write_text(f"[dealfl.learners]\n{line}\n")
    return folder


def _run(folders: list[Path], *words: str) -> subprocess.CompletedProcess[str]:
    places = os.pathsep.join(map(str, folders))
    environment = {**os.environ, "PYTHONPATH": places, "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, "-m", "dealfl", *words], env=environment, capture_output=True, text=True
    )


def _outcome(folders: list[Path], fleet: Path) -> dict[str, object]:
    done = _run(folders, "simulate", str(fleet), "--json")
    assert done.returncode == 0, done.stderr
    (outcome,) = json.loads(done.stdout)["settings"][0]["outcomes"]
    return dict(outcome)


def test_put_back_from_outside_a_learner_gives_the_same_run(
    without: Path, outside: Path, tmp_path: Path
) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    built_in = _outcome([SOURCES.parent], fleet)
    assert built_in["exact"] is True
    assert _outcome([without, outside], fleet) == built_in


def test_without_it_everything_else_works(without: Path, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    refused = _run([without], "simulate", str(fleet))
    assert refused.returncode == 2
    assert "digits takes: tikhonov_classifier, neighbors" in refused.stderr
    fleet.write_text(FLEET.replace('learner = "naive_bayes"\n', ""))
    assert _outcome([without], fleet)["exact"] is True
    keys = _run([without], "job", "keys")
    assert keys.returncode == 0
    assert "naive_bayes" not in keys.stdout
