"""What is said when an optional package is not installed."""

import builtins
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from dealfl.data import CATALOG, Directories, fetch, load
from dealfl.errors import DatasetMissing

HOUSING = CATALOG["housing"]


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Make a package look as if it were not installed."""
    real = builtins.__import__

    def absent(
        name: str,
        names: Mapping[str, object] | None = None,
        local: Mapping[str, object] | None = None,
        of: tuple[str, ...] = (),
        level: int = 0,
    ) -> ModuleType:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, names, local, of, level)

    monkeypatch.setattr(builtins, "__import__", absent)


@pytest.mark.parametrize("absent", ["pooch", "tqdm"])
def test_a_download_without_the_extra_names_it(
    absent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, absent)
    with pytest.raises(DatasetMissing, match=rf'needs {absent}; run `pip install "dealfl\[data'):
        fetch(HOUSING, Directories(cache=tmp_path))


def test_without_pooch_there_is_no_cache_and_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, "pooch")
    directories = Directories.from_environment({"DEALFL_DATA": str(tmp_path)})
    assert directories == Directories(cache=None, data=tmp_path)
    with pytest.raises(DatasetMissing, match=r'downloads need `pip install "dealfl\[datasets\]"`'):
        fetch(HOUSING, directories)


def test_without_pooch_the_data_directory_still_serves(
    real: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, "pooch")
    directories = Directories.from_environment({"DEALFL_DATA": str(real.data)})
    assert len(load("housing", directories=directories)) == 506


def test_digits_without_scikit_learn_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(DatasetMissing, match=r'pip install "dealfl\[sklearn\]"'):
        load("digits", directories=Directories(cache=None))
