"""One HTML file: style, plotly and script inside, replaced as a whole or not at all."""

from __future__ import annotations

from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from dealfl.atomic_files import replace_file
from dealfl.errors import DealError
from dealfl.pages.markup import escaped

__all__ = ["page", "write_html"]

# Nothing is fetched and nothing is sent, whatever a name in the data may try.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, body: str) -> str:
    """Return the whole page; the body is markup in which everything is escaped."""
    parts = files("dealfl.pages")
    style = parts.joinpath("page.css").read_text(encoding="utf-8")
    script = parts.joinpath("page.js").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{style}</style></head>\n"
        f"<body><main>\n{body}</main>\n"
        f"<script>{_plotly()}</script>\n<script>\n{script}</script></body></html>\n"
    )


def _plotly() -> str:
    try:
        offline: Any = import_module("plotly.offline")
    except ImportError as error:
        raise DealError(
            "pages with plots need plotly; install it with: pip install 'dealfl[report]'"
        ) from error
    source: str = offline.get_plotlyjs()
    return source


def write_html(text: str, path: str | Path) -> None:
    """Put a page where it belongs; a reader finds the old file or the new one, never a half."""
    replace_file(path, text)
