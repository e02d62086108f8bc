"""A real browser for the pages; without one, these tests are skipped, but never in CI."""

import os
import shutil
from collections.abc import Iterator
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, sync_playwright


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
