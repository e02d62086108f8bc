"""Writes what the pages take from the code: `make docs`. The tests compare it with the pages."""

from __future__ import annotations

from pathlib import Path

from dealfl.simulate import describe_keys
from docs.command_page import command_page
from docs.measured_page import measured_page
from docs.protocol_parts import message_tables
from docs.results_page import results_page
from docs.system_tables import system_tables
from docs.transcripts import erasure_transcript, round_transcript

__all__ = ["FOLDER", "pages", "replace_part", "write"]

FOLDER = Path(__file__).parent


def pages() -> dict[Path, str]:
    """Return every page that takes something from the code, as it should be."""
    jobs, protocol = FOLDER / "jobs.md", FOLDER / "protocol.md"
    before = jobs.read_text("utf-8").partition(_KEYS)[0]
    text = protocol.read_text("utf-8")
    for name, part in (
        ("messages", message_tables()),
        ("round", f"```text\n{round_transcript()}\n```"),
        ("erasure", f"```text\n{erasure_transcript()}\n```"),
    ):
        text = replace_part(text, name, part)
    tables = system_tables()
    selection = (FOLDER / "selection.md").read_text("utf-8")
    selection = replace_part(selection, "forecasts", tables.pop("forecasts"))
    systems = (FOLDER / "systems.md").read_text("utf-8")
    for name in ("targets", "curves", "rows"):
        systems = replace_part(systems, name, tables.pop(name))
    energy = (FOLDER / "energy.md").read_text("utf-8")
    for name, part in tables.items():
        energy = replace_part(energy, name, part)
    return {
        FOLDER / "cli.md": command_page(),
        FOLDER / "energy.md": energy,
        FOLDER / "selection.md": selection,
        FOLDER / "systems.md": systems,
        jobs: before + _KEYS + describe_keys(),
        protocol: text,
        FOLDER / "measured.md": measured_page(),
        FOLDER / "results.md": results_page(),
    }


_KEYS = "<!-- below: dealfl job keys; made by `make docs` -->\n"


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
