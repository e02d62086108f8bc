"""What the site adds to the pages in this folder: those beside the README, and links to them."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
_BESIDE = ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "THREATS")
_LINK = re.compile(
    r"\[([^\]\n]*)\]\(((?:\.\./)*(?:examples|benchmarks|containers|src|[A-Z]+\.md)[\w./-]*)(#[\w-]+)?\)"
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages beside the README."""
    for name in _BESIDE:
        text = (ROOT / f"{name}.md").read_text("utf-8")
        text = re.sub(r"\]\(docs/", "](", text)
        files.append(File.generated(config, f"{name.lower()}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links to pages beside the README at the site's; other files are only named."""
    up = "../" * page.file.src_uri.count("/")

    def inside(link: re.Match[str]) -> str:
        name, anchor = Path(link[2]).stem, link[3] or ""
        return f"[{link[1]}]({up}{name.lower()}.md{anchor})" if name in _BESIDE else link[1]

    return _LINK.sub(inside, markdown)
