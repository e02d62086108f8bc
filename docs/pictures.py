"""Take the pictures in docs/images: the upper part of a report, as a browser shows it.

Without an argument the default job is run for it:

    python docs/pictures.py [report.html]
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 1280, 1500  # down to the first plots


def write_report(folder: Path) -> Path:
    """Run the default job and return its page."""
    command = [sys.executable, "-m", "dealfl", "run", "--out", "runs/digits"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return folder / "runs/digits/report.html"


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
        page = Path(sys.argv[1]) if len(sys.argv) > 1 else write_report(Path(folder))
        photograph(page, ROOT / "docs/images/report.png")


if __name__ == "__main__":
    main()
