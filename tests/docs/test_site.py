"""The documentation as a site: built strictly, opened from files in a real browser."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from checks.docstrings import public_modules, public_names

ROOT = Path(__file__).parents[2]
REFERENCES = {"cli.md", "jobs.md", "phones.md", "protocol.md"}
GENERATED = re.compile(r"<!-- begin (\w+): made by `make docs` -->.*?<!-- end \1 -->", re.DOTALL)
MOST_WORDS = 2500
WAIT_MS = 240_000  # a busy machine is no failure


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a link that leads nowhere stops its making."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_every_public_name_is_described(site: Path) -> None:
    text = "".join(path.read_text("utf-8") for path in (site / "api").glob("*.html"))
    for module in public_modules():
        for name in public_names(module):
            assert f'id="{module.__name__}.{name}"' in text, f"{module.__name__}.{name}"


def test_pages_open_from_files_without_errors_and_ask_no_other_host(
    site: Path, chromium: Browser
) -> None:
    page = chromium.new_page(viewport={"width": 390, "height": 800})
    page.set_default_timeout(WAIT_MS)
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda asked: problems.append(asked.url) if _leaves(asked.url) else None)
    paths = sorted(set(site.rglob("*.html")) - {site / "404.html"})  # that one needs a server
    assert len(paths) > 20
    for path in paths:
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        width = page.evaluate("document.scrollingElement.scrollWidth")
        assert width <= 390, f"{path.name} is {width} pixels wide on a phone"
    page.close()
    assert problems == []


def _leaves(address: str) -> bool:
    return not address.startswith(("file:", "data:", "blob:"))


def test_the_search_finds_a_page_without_a_server(site: Path, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1200, "height": 800})
    page.set_default_timeout(WAIT_MS)
    page.goto((site / "index.html").as_uri(), wait_until="domcontentloaded")
    page.locator(".md-search__input").press_sequentially("certificate")
    page.wait_for_selector('.md-search-result__item a[href*="erasure.html"]', state="attached")
    page.close()


def _words(text: str) -> int:
    """Return how many words of a page are outside of generated tables."""
    return len(GENERATED.sub("", text).split())


def test_words_of_generated_tables_are_not_counted() -> None:
    table = "<!-- begin rows: made by `make docs` -->\n| a |\n<!-- end rows -->"
    assert _words(f"two words\n{table}\nand three more\n{table}") == 5
    assert _words("<!-- begin rows: made by `make docs` --> without an end") > 5


def test_a_page_is_short_unless_it_is_a_reference() -> None:
    pages = [path for path in ROOT.glob("docs/**/*.md") if path.name not in REFERENCES]
    long = {path.name: _words(path.read_text("utf-8")) for path in pages}
    assert {name: words for name, words in long.items() if words > MOST_WORDS} == {}


def test_only_pages_under_reference_may_be_long() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    under = text.partition("\n  - Reference:\n")[2].partition("\n  - Results:\n")[0]
    assert set(re.findall(r"[\w/]+\.md", under)) >= REFERENCES


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 1000
