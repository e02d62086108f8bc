"""The checks of `make check` find what they are for, in small packages that are wrong."""

from pathlib import Path

import grimp
import pytest

from checks.front_door import side_doors
from checks.reachable import Source, imported_by, unreachable
from checks.sizes import single_importers, twins_and_choices


def _package(folder: Path, **modules: str) -> Path:
    """Write a package `house`; `cooking__oven` is the module `cooking/oven.py`."""
    root = folder / "house"
    for name, text in modules.items():
        path = root.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for inner in (root, *(path for path in root.rglob("*") if path.is_dir())):
        (inner / "__init__.py").touch()
    return root


def _side_doors(
    folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str
) -> list[tuple[str, str]]:
    _package(folder, **modules)
    monkeypatch.syspath_prepend(folder)
    return side_doors(grimp.build_graph("house", cache_dir=None))


@pytest.mark.parametrize(
    "text",
    [
        "from house.cooking.oven import bake\n",
        "def f():\n    import house.cooking.oven\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.cooking import oven\n",
    ],
)
def test_an_import_past_a_package_is_found(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _side_doors(tmp_path, monkeypatch, garden=text, cooking__oven="bake = 1\n")
    assert found == [("house.garden", "house.cooking.oven")]


def test_imports_inside_a_package_and_of_packages_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _side_doors(
        tmp_path,
        monkeypatch,
        garden="import house.cooking.pans\n",  # a sub-package
        cooking__oven="from house.cooking import fire\nfrom house import garden\n",
        cooking__fire="",
        cooking__pans__lid="from house.cooking import fire\n",
    )
    assert found == []


def test_a_package_may_not_look_into_its_sub_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _side_doors(
        tmp_path,
        monkeypatch,
        cooking__oven="from house.cooking.pans.lid import open_it\n",
        cooking__pans__lid="open_it = 1\n",
    )
    assert found == [("house.cooking.oven", "house.cooking.pans.lid")]


def test_what_only_an_unreachable_name_or_an_export_mentions_is_unreachable(tmp_path: Path) -> None:
    root = _package(
        tmp_path,
        start="from house.cooking.oven import bake, broil\n\ndef main():\n    bake()\n",
        cooking__oven=(
            '__all__ = ["HEAT", "bake", "broil", "grill"]\nHEAT = 1\nTIME = 2\n'
            "def bake():\n    return _inner()\ndef _inner():\n    return TIME\n"
            "def broil():\n    return grill()\ndef grill():\n    return HEAT\n"
        ),
    )
    names = unreachable(Source(root), [("house.start", "main")])
    assert names == [f"house.cooking.{name}" for name in ("HEAT", "broil", "grill")]


def test_names_are_followed_through_modules_tables_and_lazy_front_doors(tmp_path: Path) -> None:
    root = _package(
        tmp_path,
        start=(
            "from house import commands, oven\nTABLE = (commands,)\n"
            "def main():\n    import house.lazy\n    house.lazy.grill(TABLE, oven.bake)\n"
        ),
        commands="def add():\n    pass\n",
        oven="def bake():\n    pass\ndef cool():\n    pass\n",
        lazy='def __getattr__(name):\n    return load("house.fire", name)\n',
        fire="def grill():\n    pass\ndef blow():\n    pass\n",
    )
    assert unreachable(Source(root), [("house.start", "main")]) == [
        "house.fire.blow",
        "house.oven.cool",
    ]


def test_plug_ins_are_roots(tmp_path: Path) -> None:
    root = _package(tmp_path, oven="def bake():\n    pass\n")
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "bread.py").write_text("from house.oven import bake\n")
    assert unreachable(Source(root), imported_by(tmp_path / "plugin")) == []


def test_a_module_with_one_importer_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _package(
        tmp_path,
        garden="from house import cooking\nfrom house.cooking import oven\n",
        cooking__oven="from house.cooking import fire\n",
        cooking__pan="from house.cooking import fire, lid\n",
        cooking__fire="",
        cooking__lid="",
    )
    monkeypatch.syspath_prepend(tmp_path)
    pairs = single_importers(grimp.build_graph("house", cache_dir=None))
    assert pairs == [
        ("house.cooking.lid", "house.cooking.pan"),
        ("house.cooking.oven", "house.garden"),
    ]


def test_the_loop_of_a_twin_is_reachable(tmp_path: Path) -> None:
    twin = "from house.exact import twin\n\n@twin\ndef add():\n    pass\n"
    root = _package(
        tmp_path,
        start="from house.exact.plain import add\n\ndef main():\n    add()\n",
        exact__plain=twin,
        exact__loops="def add():\n    pass\n\n\ndef other():\n    pass\n",
    )
    assert unreachable(Source(root), [("house.start", "main")]) == ["house.exact.other"]


def test_places_that_ask_which_twin_runs_are_counted_outside_of_what_decides_it() -> None:
    plain = "@twin\ndef add(x):\n    pass\n\n\n@cache\ndef other(x):\n    pass\n"
    asking = "def total(x):\n    return add(x) if CHOICE.mode == 'never' else CHOICE.spent_s\n"
    deciding = "def twin(plain):\n    return plain if CHOICE.mode == 'never' else None\n"
    assert twins_and_choices(plain) == (1, 0)
    assert twins_and_choices(plain + asking) == (1, 2)
    assert twins_and_choices(deciding) == (0, 0)
