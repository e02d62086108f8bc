"""A real browser for the pages; without one, these tests are skipped, but never in CI."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, sync_playwright

from dealfl.runs import RunRecord
from tests.report.browsing import Browsing
from tests.report.results import real_result


def no_browser() -> NoReturn:
    """Say so: a missing browser is a failure in CI."""
    reason = "there is no chromium: `make browser` installs it"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


# Not for the whole session: while it runs, no other test could use an event loop.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        no_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


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
