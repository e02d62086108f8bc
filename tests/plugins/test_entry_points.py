"""Registries: built-in names win, and what is broken in one package hurts nobody else."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dealfl.cli import main
from dealfl.data import CATALOG
from dealfl.errors import BadInput
from dealfl.jobs import Document, Job, read_plan
from dealfl.learners import LEARNERS, Learner, NaiveBayes, learners_for, settings_for
from dealfl.power import PHONES, phone
from dealfl.registry import Registry, plugins
from dealfl.server.selection import SELECTORS, Uniform
from dealfl.worker import SCHEMES

Add = Callable[..., None]
_numbers = count()
REGISTRIES: dict[str, Registry[Any]] = {
    "dealfl.learners": LEARNERS,
    "dealfl.selectors": SELECTORS,
    "dealfl.retentions": SCHEMES,
    "dealfl.datasets": CATALOG,
    "dealfl.phones": PHONES,
}


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Add]:
    """Return what installs a package with one module and one entry point."""

    def added(package: str, group: str, name: str, code: str = "THING = 1") -> None:
        folder = tmp_path / package
        module = f"{package}_{next(_numbers)}"  # a module of that name was never imported before
        about = folder / f"{package}-1.0.dist-info"
        about.mkdir(parents=True)
        (folder / f"{module}.py").write_text(code)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:THING\n")
        monkeypatch.syspath_prepend(folder)
        plugins.cache_clear()

    plugins.cache_clear()
    yield added
    plugins.cache_clear()


def test_what_dealfl_has_itself_is_found_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(group: str) -> None:
        raise AssertionError(f"{group} was searched")

    monkeypatch.setattr("dealfl.registry.plugins", searched)
    assert LEARNERS["naive_bayes"] is NaiveBayes
    assert "uniform" in SELECTORS
    assert phone("mi").name == "mi"


def test_a_name_that_dealfl_has_itself_stays_its_own(add: Add) -> None:
    add("grabber", "dealfl.selectors", "uniform")
    assert SELECTORS["uniform"] is Uniform
    assert list(SELECTORS).count("uniform") == 1
    (problem,) = SELECTORS.problems()
    assert "selector 'uniform' of the package grabber is not used: dealfl has" in problem


def test_two_packages_with_one_name_are_both_named(add: Add) -> None:
    add("anna", "dealfl.phones", "pixel")
    add("bob", "dealfl.phones", "pixel")
    assert "pixel" in PHONES
    with pytest.raises(BadInput, match=r"phone 'pixel' is provided by (anna and bob|bob and anna)"):
        PHONES["pixel"]


@pytest.mark.parametrize("group", REGISTRIES)
def test_a_package_that_cannot_be_imported_is_named_and_left_out(add: Add, group: str) -> None:
    add("broken", group, "odd", "import no_such_module")
    registry = REGISTRIES[group]
    assert "odd" in list(registry)
    with pytest.raises(BadInput, match=r"'odd' of the package broken .*no_such_module"):
        registry["odd"]
    assert "odd" not in registry.usable()
    assert len(registry.usable()) == len(registry) - 1
    (problem,) = registry.problems()
    assert "fix or uninstall the package" in problem


@pytest.mark.parametrize("group", REGISTRIES)
def test_what_is_no_such_thing_is_refused(add: Add, group: str) -> None:
    add("wrong", group, "odd", "THING = 42")
    with pytest.raises(BadInput, match=r"of the package wrong .* cannot be used: 42 is n"):
        REGISTRIES[group]["odd"]


@pytest.mark.parametrize(
    ("group", "code"),
    [
        ("dealfl.learners", "from dealfl.learners import NaiveBayes as THING"),
        ("dealfl.datasets", "from dealfl.data import CATALOG; THING = CATALOG['digits']"),
        ("dealfl.phones", "from dealfl.power import PHONES; THING = PHONES['mi']"),
    ],
)
def test_a_thing_and_its_entry_have_the_same_name(add: Add, group: str, code: str) -> None:
    add("misnamed", group, "odd", code)
    with pytest.raises(BadInput, match=r"both names must be the same|it must be 'odd'"):
        REGISTRIES[group]["odd"]


def test_an_unknown_name_is_unknown_also_to_get() -> None:
    assert LEARNERS.get("nothing") is None
    with pytest.raises(KeyError):
        LEARNERS["nothing"]


def test_commands_continue_beside_a_broken_package(
    add: Add, capsys: pytest.CaptureFixture[str]
) -> None:
    add("broken", "dealfl.phones", "odd", "1 / 0")
    add("damaged", "dealfl.datasets", "odder", "THING = None")
    add("faulty", "dealfl.learners", "oddest", "raise SystemError('no')")
    assert main(["devices"]) == 0
    captured = capsys.readouterr()
    assert "nexus" in captured.out
    assert "phone 'odd' of the package broken" in captured.err
    assert main(["datasets"]) == 0
    captured = capsys.readouterr()
    assert "digits" in captured.out
    assert "dataset 'odder' of the package damaged" in captured.err
    assert main(["job", "keys"]) == 0
    assert main(["devices", "show", "odd"]) == 2
    assert "of the package broken" in capsys.readouterr().err
    assert "oddest" not in learners_for(CATALOG["digits"].task)
    job = Document.parse('[job]\ndataset = "digits"\nlearner = "oddest"', "job.toml")
    with pytest.raises(BadInput, match="learner 'oddest' of the package faulty"):
        read_plan(job, Job(dataset="digits", learner="oddest"))


def test_help_searches_for_nothing() -> None:
    code = (
        "import sys, dealfl.cli; dealfl.cli.parser().format_help(); "
        "print([name for name in ('dealfl.registry', 'importlib.metadata') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "[]"


def test_a_learner_without_settings_for_data_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unfinished(NaiveBayes):
        settings_for = Learner.settings_for

    monkeypatch.setitem(LEARNERS._own, "naive_bayes", Unfinished)
    with pytest.raises(
        BadInput, match=r"'naive_bayes' cannot be used for .*Unfinished of .* lacks"
    ):
        settings_for("naive_bayes", CATALOG["digits"])
