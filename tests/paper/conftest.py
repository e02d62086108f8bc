"""The browser of tests/report, and rows that a quick run stored.

After a change of a figure's quick settings or rows, store them again:
`dealfl reproduce --quick --out tests/paper/stored`, then delete its page and results.
"""

import shutil
from pathlib import Path

import pytest

from dealfl_paper.figure import Figure
from dealfl_paper.figures import FIGURES
from dealfl_paper.store import Store
from tests.report.conftest import browsing, chromium, pictures

__all__ = ["browsing", "chromium", "pictures"]

STORED = Path(__file__).parent / "stored"


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the stored rows of every figure."""
    folder = tmp_path_factory.mktemp("reproduced")
    shutil.copytree(STORED / "rows", folder / "rows")
    store = Store(folder)
    for one in FIGURES:
        for setting in one.settings(True):
            assert store.rows(one.name, setting) is not None, f"not stored: {one.name}, {setting}"
    return folder


@pytest.fixture(params=[figure.name for figure in FIGURES])
def figure(request: pytest.FixtureRequest) -> Figure:
    """Return each figure."""
    return next(one for one in FIGURES if one.name == request.param)
