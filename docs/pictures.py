"""Take the picture of a report, and note what the run behind it printed: `make pictures`.

A test compares the note with the recorded default run and with the README.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
WIDTH, HEIGHT = 1280, 1500  # down to the first plots


def write_report(folder: Path) -> Path:
    """Run the default job, note what it prints, and return its page."""
    command = [sys.executable, "-m", "dealfl", "run", "--out", "runs/digits"]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    (IMAGES / "report.txt").write_text(done.stdout, "utf-8")
    return folder / "runs/digits/report.html"


def photograph(page: Path, picture: Path) -> None:
    """Open a page and save what is seen of it."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("chromium is missing: make browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.goto(page.resolve().as_uri(), timeout=240_000)
        tab.wait_for_timeout(1000)
        tab.screenshot(path=picture)
        browser.close()


def main() -> None:
    """Take the picture."""
    with tempfile.TemporaryDirectory() as folder:
        photograph(write_report(Path(folder)), IMAGES / "report.png")


if __name__ == "__main__":
    main()
