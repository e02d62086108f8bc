"""Take the pictures in docs/images: the upper part of a report, as a browser shows it.

Without an argument an example is run for it, which takes a minute:

    python docs/pictures.py [report.html]
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from dealfl.report import write_page
from dealfl.runs import Result
from dealfl.settings import Document
from dealfl.simulate import read_fleet, run_fleet

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples/fleets/digits.toml"
SCHEMES = ("deal", "original", "newfl", "incremental")
WIDTH, HEIGHT = 1280, 1375  # down to the first four plots


def write_example(path: Path) -> None:
    """Run the example under all schemes and write its page."""
    document = Document.read(EXAMPLE)
    outcomes = [run_fleet(read_fleet(document.replaced("job.scheme", one))) for one in SCHEMES]
    settings = EXAMPLE.read_text(encoding="utf-8")
    write_page(Result(outcomes[0].job, tuple(outcomes), settings), path)


def photograph(page: Path, picture: Path) -> None:
    """Open a page and save what is seen of it."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("chromium is missing: make browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        tab.wait_for_timeout(1000)
        tab.screenshot(path=picture)
        browser.close()


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "report.html"
        if len(sys.argv) == 1:
            write_example(page)
        photograph(page, ROOT / "docs/images/report.png")


if __name__ == "__main__":
    main()
