"""What pages take from the code is what the code says now."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dealfl.cli import parser
from dealfl.learners import NaiveBayes
from docs import speed_tables, system_tables, write
from docs.command_page import command_page
from docs.measured_page import measured_page
from docs.scale_tables import scale_tables
from docs.transcripts import erasure_transcript, masked_transcript, round_transcript

ROOT = Path(__file__).parents[2]
EXAMPLE = [0.0, 0.5, 1.0]


def test_all_pages_are_up_to_date() -> None:
    pages = write.pages()
    assert {"measured.md", "scale.md", "speed.md", "systems.md"} <= {path.name for path in pages}
    stale = [path.name for path, text in pages.items() if path.read_text("utf-8") != text]
    assert stale == [], "run `make docs`"


def _system(*, holds: bool, superseded: str = "") -> dict[str, Any]:
    check = {"what": "joules", "target": "≤ 20 %", "measured": f"{holds} {superseded}"}
    return {"settings": {"superseded": superseded}, "checks": [check | {"holds": holds}]}


def test_missed_targets_of_whole_systems_are_listed_and_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parts = {
        "met": _system(holds=True),
        "missed": _system(holds=False),
        "old": _system(holds=False, superseded="mended"),
    }
    kept = tmp_path / "system.json"
    kept.write_text(json.dumps(parts), "utf-8")
    monkeypatch.setattr(system_tables, "_KEPT", kept)
    results = json.loads((write.FOLDER / "benchmarks.json").read_text("utf-8"))
    checks = [check["holds"] for one in results.values() for check in one["checks"]]
    page = measured_page()
    assert f"\n{sum(checks) + 1} of {len(checks) + 2} targets are met" in page
    assert "), 1 of 2 by modelled whole systems." in page
    assert re.findall(r"^\| joules .*$", page, re.MULTILINE) == [
        "| joules | ≤ 20 % | False  | [whole systems](systems.md), modelled |"
    ]


def test_the_page_of_speed_shows_missed_and_discussed_targets_whatever_their_values(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checks = [
        {"what": what, "target": "≥ 15×", "measured": measured, "holds": holds}
        for what, measured, holds in (
            ("naive Bayes, covtype: forget 1,000, beside its peer", "15.7×", True),
            ("ridge, 8 features", "1.07×", False),
            ("ridge, 54 features", "4.4×", True),
        )
    ]
    results = {"learners": {"checks": checks, "rows": []}, "runs": {"checks": checks[1:2]}}
    kept = tmp_path / "benchmarks.json"
    kept.write_text(json.dumps(results), "utf-8")
    monkeypatch.setattr(speed_tables, "_RESULTS", kept)
    tables = speed_tables.speed_tables()
    assert tables["learners"].splitlines()[2:] == [
        "| naive Bayes, covtype: forget 1,000, beside its peer | ≥ 15× | 15.7× | yes |",
        "| ridge, 8 features | ≥ 15× | 1.07× | **no** |",
    ]
    assert tables["runs"].splitlines()[2:] == ["| ridge, 8 features | ≥ 15× | 1.07× | **no** |"]
    assert "not measured yet" in tables["jester"]


def test_the_memory_of_large_simulations_is_that_of_the_largest_fleet() -> None:
    results = json.loads((write.FOLDER / "benchmarks.json").read_text("utf-8"))
    fleets = [row for row in results["fleets"]["rows"] if "at the end, MB" in row]
    largest = max(fleets, key=lambda row: int(row["workers"]))
    memory_mb, workers = largest["at the end, MB"], largest["workers"]
    tables = scale_tables()
    assert f"hibernate | {memory_mb:,.0f} MB | {workers:,} workers |" in tables["units"]
    assert f"10⁶ workers | {memory_mb / workers * 1e3:,.0f} GB of memory |" in tables["limits"]
    assert "simulation of 10⁵ workers" not in tables["limits"]


def test_a_part_without_its_marks_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="no marks `begin messages`"):
        write.replace_part("a page without marks", "messages", "part")


def test_the_page_of_commands_does_not_depend_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = command_page()
    monkeypatch.setenv("COLUMNS", "40")
    assert command_page() == wide


def test_the_page_of_commands_has_every_command_and_says_what_every_argument_means() -> None:
    page = command_page()
    listed = parser().format_help().partition("examples:")[0]
    commands = re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)
    assert "run" in commands
    for command in commands:
        assert f"\n## dealfl {command}\n" in page
    rows = re.findall(r"^\| `(.+)` \| (.*?) \|", page, re.MULTILINE)
    assert len(rows) > 60
    assert [word for word, meaning in rows if not meaning.strip()] == []


def _digest(count: int) -> str:
    model = NaiveBayes(3, ["no", "yes"], feature_bound=1.0, fraction_bits=8)
    model.learn([EXAMPLE] * count, ["yes"] * count)
    return f"digest {model.digest()[:8]}…"


def test_the_round_of_the_transcript_ends_with_the_model_of_all_examples() -> None:
    first, second = (line for line in round_transcript().splitlines() if "Published" in line)
    assert _digest(3) in first  # the third worker is late,
    assert _digest(4) in second  # and counts all the same


def test_the_erasure_of_the_transcript_leaves_the_model_of_those_who_stay() -> None:
    lines = erasure_transcript().splitlines()
    assert _digest(1) in lines[-1]  # bob: ann and cem are erased, dee's phone is still training
    assert sum("withdrawn true" in line for line in lines) == 1
    assert sum("withdrawn false" in line for line in lines) == 1


def test_every_message_is_in_a_transcript_or_a_table() -> None:
    page = (write.FOLDER / "protocol.md").read_text("utf-8")
    told = round_transcript() + erasure_transcript() + masked_transcript()
    for name in re.findall(r"^### (\w+): ", page, re.MULTILINE):
        if name not in ("Asleep", "Declined", "Fetch", "Refusal", "Sleep"):  # all goes well there
            assert f" {name} " in told, name


def _pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    return sorted(found)


@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text)
    links += re.findall(r'<(?:img|source)[^>]+src(?:set)?="([^"]+)"', text)
    assert [link for link in links if not (page.parent / link).exists()] == []
