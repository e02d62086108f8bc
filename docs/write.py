"""Writes what the pages take from the code: `make docs`. The tests compare it with the pages."""

from __future__ import annotations

from pathlib import Path

from dealfl.simulate import describe_keys
from docs.command_page import command_page
from docs.measured_page import measured_page
from docs.protocol_parts import message_tables
from docs.results_page import results_page
from docs.scale_tables import scale_tables, tree_tables
from docs.speed_tables import speed_tables
from docs.system_tables import system_tables
from docs.transcripts import erasure_transcript, masked_transcript, round_transcript

__all__ = ["FOLDER", "pages", "replace_part", "write"]

FOLDER = Path(__file__).parent
_ROWS_OF_SYSTEMS = (
    "targets", "superseded", "riding", "curves", "notice", "stranger", "reviews", "calls", "rows",
)  # fmt: skip


def pages() -> dict[Path, str]:
    """Return every page that takes something from the code, as it should be."""
    jobs = FOLDER / "jobs.md"
    before = jobs.read_text("utf-8").partition(_KEYS)[0]
    protocol = {
        "messages": message_tables(),
        "round": f"```text\n{round_transcript()}\n```",
        "erasure": f"```text\n{erasure_transcript()}\n```",
        "masked": f"```text\n{masked_transcript()}\n```",
    }
    tables = system_tables()
    forecasts = {"forecasts": tables.pop("forecasts")}
    systems = {name: tables.pop(name) for name in _ROWS_OF_SYSTEMS}
    return {
        FOLDER / "cli.md": command_page(),
        **_filled("scale.md", scale_tables()),
        **_filled("regions.md", tree_tables()),
        **_filled("speed.md", speed_tables()),
        **_filled("energy.md", tables),
        **_filled("selection.md", forecasts),
        **_filled("systems.md", systems),
        **_filled("protocol.md", protocol),
        jobs: before + _KEYS + describe_keys(),
        FOLDER / "measured.md": measured_page(),
        FOLDER / "results.md": results_page(),
    }


_KEYS = "<!-- below: dealfl job keys; made by `make docs` -->\n"


def _filled(name: str, parts: dict[str, str]) -> dict[Path, str]:
    """Return a page whose parts between marks are replaced, by its path."""
    path = FOLDER / name
    text = path.read_text("utf-8")
    for part, content in parts.items():
        text = replace_part(text, part, content)
    return {path: text}


def replace_part(text: str, name: str, part: str) -> str:
    """Return a page with the part between two marks replaced."""
    before, begin, rest = text.partition(f"<!-- begin {name}: made by `make docs` -->\n")
    _, end, after = rest.partition(f"<!-- end {name} -->")
    if not begin or not end:
        raise ValueError(f"no marks `begin {name}` and `end {name}` in the page")
    return f"{before}{begin}{part}\n{end}{after}"


def write() -> None:
    """Write all pages."""
    for path, text in pages().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
