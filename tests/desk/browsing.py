"""A desk in a real browser: what it complains of, asks for and shows."""

from __future__ import annotations

from types import TracebackType

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.desk.desks import RunningDesk

SERIOUS = ("serious", "critical")


class Tab:
    """A window of a browser that was let in."""

    def __init__(
        self, browser: Browser, desk: RunningDesk, *, width: int = 1200, scheme: str = "light",
        scripts: bool = True,
    ) -> None:  # fmt: skip
        self.desk, self.problems, self.hosts = desk, list[str](), set[str]()
        self._context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme,  # type: ignore[arg-type]
            java_script_enabled=scripts,
        )  # fmt: skip
        self.page: Page = self._context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        self.page.goto(desk.address)
        if not scripts:
            self.page.fill("input[name=token]", desk.token)
            self.page.click("button")
        self.page.wait_for_url("**/fleet")

    def __enter__(self) -> Tab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._context.close()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def open(self, path: str) -> Page:
        """Open a page of the desk, and wait until it is drawn."""
        self.page.goto(f"{self.desk.origin}/{path}")
        self.settle()
        return self.page

    def settle(self) -> None:
        drawn = (
            "() => [...document.querySelectorAll('div.plot')].every(p => p.querySelector('svg'))"
        )
        self.page.wait_for_function(drawn)

    def is_wide(self) -> bool:
        """Whether the page is wider than the window."""
        page = "document.documentElement"
        return bool(self.page.evaluate(f"{page}.scrollWidth > {page}.clientWidth"))

    def faults(self) -> list[str]:
        """Return the serious faults that axe finds."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{fault['id']}: {fault['nodes'][0]['html'][:200]}"
            for fault in found
            if fault["impact"] in SERIOUS
        ]
