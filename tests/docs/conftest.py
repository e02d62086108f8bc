"""What the tests of the pages share."""

from tests.browser import chromium

__all__ = ["chromium"]  # a fixture
