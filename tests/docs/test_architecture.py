"""The tree and the layers in ARCHITECTURE.md are those of the code; pages name real files."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
SOURCE = ROOT / "src" / "dealfl"


def _listed() -> list[Path]:
    tree = re.search(r"^src/dealfl/\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert tree
    found: list[Path] = []
    parent = SOURCE
    for indent, name in re.findall(r"^(  |    )(\w+(?:\.py|/))", tree[1], re.MULTILINE):
        parent = SOURCE / name if indent == "  " else parent
        found.append(parent if indent == "  " else parent / name)
    return found


def test_every_file_and_folder_of_the_tree_exists() -> None:
    assert [path for path in _listed() if not path.exists()] == []


def test_every_package_and_every_module_at_the_top_is_in_the_tree() -> None:
    packages = {path.parent for path in SOURCE.rglob("__init__.py")} - {SOURCE}
    modules = set(SOURCE.glob("*.py"))
    assert (packages | modules) - set(_listed()) == set()


def test_the_layers_are_those_that_are_enforced() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = configured["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    text = re.search(r"^    (__main__ > .*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert text
    assert " ".join(text[1].split()) == " > ".join(layers)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    named = re.findall(r"`((?:[\w.-]+/)+(?:[\w-]+\.(?:py|toml|md|txt))?)`", text)
    real = {name for name in named if "NAME" not in name}
    assert {n for n in real if not ((ROOT / n).exists() or (SOURCE / n).exists())} == set()
    assert len(real) > 10
