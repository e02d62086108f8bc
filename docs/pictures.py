"""Take the pictures of a desk and a report; note what the run behind them printed: `make pictures`.

A test compares the note with the recorded default run and with the README.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
WIDTH, HEIGHT = 1280, 1500  # down to the first plots
WAIT_S = 600.0  # for the first ledger of a run


def write_report(folder: Path) -> Path:
    """Run the default job, note what it prints, and return its page."""
    command = [sys.executable, "-m", "dealfl", "run", "--out", "runs/digits"]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    (IMAGES / "report.txt").write_text(done.stdout, "utf-8")
    return folder / "runs/digits/report.html"


def photograph_desk(folder: Path, picture: Path) -> None:
    """Take the picture of the desk of a run, once that has saved its ledger."""
    until_s = time.monotonic() + WAIT_S
    while not (folder / "ledger.db").exists():
        if time.monotonic() > until_s:
            sys.exit(f"{folder} has no ledger after {WAIT_S} s")
        time.sleep(0.5)
    command = [sys.executable, "-m", "dealfl", "desk", f"runs/{folder.name}", "--json"]
    home = folder.parents[1]  # the page shows the path as it is given
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=home) as desk:  # noqa: S603
        assert desk.stdout is not None
        address = json.loads(desk.stdout.readline())["address"]
        try:
            photograph(address, picture, 900)
        finally:
            desk.terminate()


def photograph(address: str, picture: Path, height: int = HEIGHT) -> None:
    """Open a page and save what is seen of it."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("chromium is missing: make browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme="light")
        tab.goto(address, timeout=240_000)
        tab.wait_for_timeout(1000)
        tab.screenshot(path=picture)
        browser.close()


def main() -> None:
    """Take the pictures: of the desk while the run is under way, of the report at its end."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as background:
        report = background.submit(write_report, Path(folder))
        photograph_desk(Path(folder) / "runs/digits", IMAGES / "desk.png")
        photograph(report.result().resolve().as_uri(), IMAGES / "report.png")


if __name__ == "__main__":
    main()
