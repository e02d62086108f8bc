"""Pages of a real run in a real browser."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from dealfl.runs import RunRecord
from tests.browser import chromium
from tests.report.browsing import Browsing
from tests.report.results import real_result

__all__ = ["chromium"]  # a fixture


@pytest.fixture(scope="module")
def browsing(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsing]:
    """Opens pages, each once."""
    opened = Browsing(chromium, tmp_path_factory.mktemp("pages"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def result() -> RunRecord:
    """What a small fleet of phones really came to, under all schemes."""
    return real_result()


@pytest.fixture(scope="session")
def pictures() -> Path | None:
    """Where people who want to look at the pages themselves get pictures of them."""
    folder = os.environ.get("DEALFL_PICTURES")
    return Path(folder) if folder else None
