"""Pages as a browser shows them: what was drawn, asked for, complained of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize

FINDINGS = (Path(__file__).parent / "findings.js").read_text(encoding="utf-8")


class Opened:
    """A page in a browser, and what happened on it since it was opened."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page, self.path = page, path
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())
        self.settle()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def at(self, width: int) -> "Opened":
        """Make the window that wide."""
        if self.page.viewport_size != {"width": width, "height": 900}:
            self.page.set_viewport_size({"width": width, "height": 900})
            self.settle()
        return self

    def settle(self) -> None:
        """Wait until everything is drawn: plots are drawn and resized between two frames."""
        self.page.wait_for_timeout(500)

    def find(self, what: str, *arguments: object) -> Any:
        """Call one of the functions of findings.js."""
        call = f"(arguments) => {{ {FINDINGS}\n return {what}(...arguments); }}"
        return self.page.evaluate(call, list(arguments))


class Browsing:
    """Opens pages, each once: a browser takes seconds to read plotly."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser, self._folder = browser, folder
        self._opened: dict[str, Opened] = {}

    def open(self, name: str, write: Callable[[Path], None]) -> Opened:
        """Return the page of that name; it is written and opened if it was not before."""
        if name not in self._opened:
            path = self._folder / f"{name}.html"
            write(path)
            window: ViewportSize = {"width": 400, "height": 900}
            page = self._browser.new_page(viewport=window, color_scheme="light")
            self._opened[name] = Opened(page, path)
        return self._opened[name]

    def close(self) -> None:
        """Close all pages."""
        for opened in self._opened.values():
            opened.page.close()
