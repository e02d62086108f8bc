"""What pages take from the code is what the code says now."""

import re
from pathlib import Path

import pytest

from dealfl.cli import parser
from dealfl.learners import NaiveBayes
from docs import write
from docs.command_page import command_page
from docs.transcripts import erasure_transcript, round_transcript

ROOT = Path(__file__).parents[2]
EXAMPLE = [0.0, 0.5, 1.0]


@pytest.mark.parametrize("name", ["cli.md", "jobs.md", "measured.md", "protocol.md", "results.md"])
def test_a_page_is_up_to_date(name: str) -> None:
    path = write.FOLDER / name
    assert path.read_text("utf-8") == write.pages()[path], "run `make docs`"


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
    told = round_transcript() + erasure_transcript()
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
